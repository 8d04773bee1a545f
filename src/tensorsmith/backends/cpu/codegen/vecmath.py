"""Vector math as LLVM IR text: `exp`, `log`, `tanh`, ... on `<lanes x float>` or `<lanes x double>`.

LLVM would turn these calls on vectors into one libm call per lane. Here each function is straight polynomial code on
whole vectors, marked `alwaysinline`: no calls, no memory, no branch that depends on a single lane (`sin` and `cos` have
one branch on the whole vector, taken when any lane is huge; a lane's result does not depend on the others). The target
must have fused multiply-add; without it `llvm.fma` is a call.

Inputs and outputs follow C and NumPy over the whole range: NaN, infinities, signed zeros, denormal inputs and results.
`pow` on f32 works in f64 inside.

Largest errors, in units in the last place of the exact result, as printed by `python tests/backends/cpu/codegen/test_vecmath.py`:

    exp      f32 0.844   f64 0.871
    expm1    f32 1.427   f64 2.094
    log      f32 0.918   f64 0.750
    log1p    f32 1.518   f64 1.347
    tanh     f32 2.533   f64 2.492
    sigmoid  f32 2.327   f64 2.069
    erf      f32 1.174   f64 1.447
    sin      f32 1.523   f64 1.984
    cos      f32 1.517   f64 2.272
    rsqrt    f32 1.490   f64 1.488
    pow      f32 0.551   f64 1.003

These are maxima over samples (f32 of one argument: every 257th of all bit patterns; `sin` and `cos` up to the largest
float and double), not proofs. One denser run (f32: every 7th pattern; `pow` and f64: 30 more seeds, f64 `erf` 8) found
at most 0.13 more in f32 (`erf` 1.30) and 0.43 more in f64 (`sin` 2.41, `sigmoid` 2.40, `pow` 1.17).
"""

from __future__ import annotations

from collections.abc import Callable

from tensorsmith.backends.cpu.codegen.formula import F32, F64, FORMATS, INF, NAN, Format, Formula, Operand, Term

# --- exp, expm1, sigmoid, tanh ----------------------------------------------------------------------------------------------

LOG2_E = 1.4426950408889634
LN2 = {"f32": (float.fromhex("0x1.62e430p-1"), float.fromhex("-0x1.05c610p-29")),
       "f64": (float.fromhex("0x1.62e42fefa39efp-1"), float.fromhex("0x1.abc9e3b39803fp-56"))}  # fmt: skip

# (e^r - 1 - r) / r^2 on |r| <= ln2/2; relative error of e^r 2^-28.2 and 2^-57.9.
EXP = {
    "f32": (0.4999999403953552, 0.16666516661643982, 0.04166810214519501, 0.00836916547268629, 0.0013838002923876047),
    "f64": (0.5000000000000011, 0.1666666666666641, 0.041666666666529725, 0.008333333333494978, 0.0013888888943760704,
            0.0001984126950576547, 2.4801492948843317e-05, 2.7557586815532085e-06, 2.76303065329326e-07,
            2.5000014045274404e-08),
}  # fmt: skip
# Below the first bound e^x rounds to 0, above the second to infinity.
EXP_BOUNDS = {"f32": (-104.5, 89.0), "f64": (-746.0, 710.0)}


def _exp_in_bounds(b: Formula, x: Term, low: Term | None = None) -> Term:
    """e^(x + low) for x inside EXP_BOUNDS: x = n ln2 + r, then 2^n as a product of two powers.

    One power would not reach denormal results nor the last binade before infinity; with two, the last multiplication
    rounds, underflows and overflows as it should.
    """
    fmt = b.format
    magic = fmt.magic + 2 * fmt.bias
    t = b.fma(x, LOG2_E, magic)
    n = t - magic
    high_ln2, low_ln2 = LN2[fmt.name]
    r = b.fma(n, -low_ln2, b.fma(n, -high_ln2, x))
    if low is not None:
        r = r + low
    p = b.polynomial(r, (1.0, 1.0, *EXP[fmt.name]))
    ints = b.bits(t)  # low bits: n + 2 bias
    half = (ints << (fmt.mantissa - 1)) & fmt.exponent_mask
    rest = (ints << fmt.mantissa) - half
    return p * b.floats(half) * b.floats(rest)


def _exp(b: Formula, x: Term) -> Term:
    least, most = EXP_BOUNDS[b.format.name]
    return _exp_in_bounds(b, b.at_most(b.at_least(x, least), most))


def _expm1(b: Formula, x: Term) -> Term:
    """2 (2^(n-1) (e^r - 1) + 2^(n-1) - 1/2) with x = n ln2 + r: no power overflows before the result does."""
    fmt = b.format
    a = b.at_most(b.at_least(x, -40.0), EXP_BOUNDS[fmt.name][1])  # e^-40 - 1 rounds to -1
    magic = fmt.magic + fmt.bias - 1
    t = b.fma(a, LOG2_E, magic)
    high_ln2, low_ln2 = LN2[fmt.name]
    n = t - magic
    r = b.fma(n, -low_ln2, b.fma(n, -high_ln2, a))
    h = b.fma(b.polynomial(r, EXP[fmt.name]) * r, r, r)
    power = b.floats(b.bits(t) << fmt.mantissa)
    y = b.fma(power, h, power - 0.5) * 2.0
    return b.select(b.abs(x) < 2.0**-fmt.bits, x, y)  # half of a denormal would lose a bit, and -0.0 its sign


def _sigmoid(b: Formula, x: Term) -> Term:
    """With e = exp(-|x|): 1 / (1 + e), or e / (1 + e) for negative x, so both tails keep their relative accuracy."""
    e = _exp_in_bounds(b, b.at_least(-b.abs(x), EXP_BOUNDS[b.format.name][0]))
    return b.select(b.bits(x) < 0, e, 1.0) / (e + 1.0)


# ((e^2r - 1)/2 - r) / r^2 on |r| <= ln2/4; relative error of (e^2r - 1)/2 2^-26.1 and 2^-61.7.
TANH = {
    "f32": (0.9999999403953552, 0.6666615605354309, 0.3333419859409332, 0.13387340307235718, 0.04428114369511604),
    "f64": (1.0, 0.6666666666666671, 0.33333333333333204, 0.13333333333314648, 0.04444444444468038,
            0.012698412727086746, 0.003174603158042575, 0.0007054654529150756, 0.0001410939022737173,
            2.5711640969014564e-05, 4.275266982458117e-06),
}  # fmt: skip


def _tanh(b: Formula, x: Term) -> Term:
    """h / (h + 1) with h = (e^2|x| - 1) / 2, which is exact near 0 and never above 1.

    |x| = n ln2/2 + r with one constant for ln2/2: its error grows with n, but tanh forgets it faster, as 2^-n.
    """
    fmt = b.format
    magic = fmt.magic + fmt.bias
    a = b.at_most(b.abs(x), 10.0 if fmt is F32 else 20.0)
    t = b.fma(a, 2 * LOG2_E, magic)
    r = b.fma(t - magic, -LN2[fmt.name][0] / 2, a)
    h = b.fma(b.polynomial(r, TANH[fmt.name]) * r, r, r)
    power = b.floats(b.bits(t) << fmt.mantissa)
    h = b.fma(power, h, b.fma(power, 0.5, -0.5))
    return b.flip_sign(h / (h + 1.0), b.sign_bit(x))


# --- erf -------------------------------------------------------------------------------------------------------------

# erf(x)/x - 1 as a polynomial in x^2 on |x| <= 1; relative error of erf 2^-29.4 and 2^-56.3.
ERF_SMALL = {
    "f32": (0.12837916612625122, -0.3761262595653534, 0.11283578723669052, -0.026853347197175026, 0.005187162198126316,
            -0.0007997853099368513, 7.806903158780187e-05),
    "f64": (0.1283791670955126, -0.3761263890318375, 0.11283791670954857, -0.026866170645072907, 0.005223977624780965,
            -0.0008548326978747702, 0.00012055331037093965, -1.4925593511401867e-05, 1.6460972886829844e-06,
            -1.6350025936209924e-07, 1.4657884472637242e-08, -1.1365683248456953e-09, 5.945290031037285e-11),
}  # fmt: skip
# log2(erfc(x)) on 1 <= x <= 4 (f32), 6 (f64); error of erf 2^-25.9 and 2^-56.0.
ERF_TAIL = {
    "f32": (-0.003854521317407489, -1.612122654914856, -0.94422847032547, -0.12787166237831116, 0.021320153027772903,
            -0.0016596827190369368),
    "f64": (-2.6608668292966435e-07, -1.6279043088158327, -0.9184610772626065, -0.14823206160949057,
            0.02752220853946071, 0.0004071997321480548, -0.002554938585465995, 0.0009274417489628866,
            -6.632000768533872e-05, -0.00010061800863066776, 6.458474716014466e-05, -2.3689601589448348e-05,
            6.205718822015253e-06, -1.2192608382129995e-06, 1.8007710827031352e-07, -1.9506517795942248e-08,
            1.4671236400471376e-09, -6.854386464480742e-11, 1.4988143301935401e-12),
}  # fmt: skip
# 2^r with constant term 1 on |r| <= 1/2; relative error 2^-23.1 and 2^-52.0, of erfc <= 0.158.
ERF_EXP2 = {
    "f32": (1.0, 0.6931470036506653, 0.24022242426872253, 0.05550733953714371, 0.009671512059867382,
            0.0013264711014926434),
    "f64": (1.0, 0.6931471805599492, 0.240226506959091, 0.055504108664481855, 0.009618129107983263,
            0.001333355822579635, 0.00015403529994153145, 1.5252659429514336e-05, 1.321565362039448e-06,
            1.0208322699563514e-07, 7.038177582943955e-09),
}  # fmt: skip


def _erf(b: Formula, x: Term) -> Term:
    """An odd polynomial below 1; above, 1 - 2^log2(erfc), where erfc is so small that its own error hardly counts."""
    fmt = b.format
    a = b.at_most(b.abs(x), 4.0 if fmt is F32 else 6.0)
    small = b.fma(b.polynomial(a * a, ERF_SMALL[fmt.name]), a, a)
    v = b.polynomial(a, ERF_TAIL[fmt.name])
    magic = fmt.magic + fmt.bias
    t = v + magic
    p = b.polynomial(v - (t - magic), ERF_EXP2[fmt.name])
    tail = b.fma(-p, b.floats(b.bits(t) << fmt.mantissa), 1.0)
    return b.flip_sign(b.select(a < 1.0, small, tail), b.sign_bit(x))


# --- log, log1p -------------------------------------------------------------------------------------------------------------

# (log(1+r) - r + r^2/2) / r^3 on |r| <= 1/3; relative error of log(1+r) 2^-27.5.
LOG_F32 = (0.3333321511745453, -0.2499978393316269, 0.20010477304458618, -0.16681207716464996,
           0.14004431664943695, -0.12173360586166382, 0.13993139564990997, -0.12943243980407715)  # fmt: skip
# (log((1+s)/(1-s)) - 2s) / s^3 as a polynomial in s^2 on |s| <= 1/5; relative error of the log 2^-62.7.
LOG_F64 = (0.666666666666666, 0.4000000000005666, 0.2857142855583202, 0.222222242961078,
           0.18181665892595467, 0.1539111153839754, 0.13173604351867846, 0.1384301258619288)  # fmt: skip
# ln2 in two parts, the first short enough that its product with an exponent is exact.
LN2_SHORT, LN2_REST = float.fromhex("0x1.62e42fefa3800p-1"), float.fromhex("0x1.ef35793c76730p-45")


def _split(b: Formula, x: Term, fmt: Format, denormals: bool) -> tuple[Term, Term]:
    """Positive finite x = 2^k m with 2/3 <= m < 4/3; k as a float. Garbage for other x."""
    lowest = {"f32": 0x3F2AAAAB, "f64": 0x3FE5555555555555}[fmt.name]  # the bits of 2/3
    unbias: Operand = fmt.magic + fmt.bias
    if denormals:
        shift = fmt.mantissa + 1
        tiny = x < fmt.smallest_normal
        x = b.select(tiny, x * 2.0**shift, x)
        unbias = b.select(tiny, b.const(fmt.magic + fmt.bias + shift, x.type), unbias)
    ints = b.bits(x) - (lowest - (fmt.bias << fmt.mantissa))
    magic_bits = (fmt.bias + fmt.mantissa << fmt.mantissa) | (1 << (fmt.mantissa - 1))
    k = b.floats((ints >> fmt.mantissa) | magic_bits) - unbias
    m = b.floats((ints & ((1 << fmt.mantissa) - 1)) + lowest)
    return k, m


def _log_of_split(b: Formula, k: Term, r: Term) -> Term:
    """k ln2 + log(1 + r) for -1/3 <= r < 1/3."""
    if b.format is F32:
        return b.fma(k, LN2["f32"][0], b.fma(r * r, b.polynomial(r, (-0.5, *LOG_F32)), r))
    s = r / (r + 2.0)
    z = s * s
    half_square = r * r * 0.5
    correction = b.fma(k, LN2_REST, s * (half_square + z * b.polynomial(z, LOG_F64)))
    return b.fma(k, LN2_SHORT, r - (half_square - correction))


def _log(b: Formula, x: Term) -> Term:
    k, m = _split(b, x, b.format, denormals=True)
    y = _log_of_split(b, k, m - 1.0)
    y = b.select(x < INF, y, x)  # infinity and NaN
    y = b.select(x < 0.0, NAN, y)
    return b.select(x.equals(0.0), -INF, y)


def _log1p(b: Formula, x: Term) -> Term:
    """log(u + rest) with u = 1 + x rounded and what the rounding lost, which is all of x where x is tiny."""
    fmt = b.format
    larger, smaller = b.at_least(x, 1.0), b.at_most(x, 1.0)
    u = larger + smaller
    rest = (larger - u) + smaller
    k, m = _split(b, u, fmt, denormals=False)
    one = fmt.bias << fmt.mantissa
    shrink = b.floats(b.bits(m) - b.bits(b.at_most(u, 2.0 ** (fmt.bias - 2))) + one)  # 2^-k; where it is not, rest is nothing
    y = _log_of_split(b, k, b.fma(rest, shrink, m - 1.0))
    y = b.select(x < INF, y, x)
    y = b.select(x < -1.0, NAN, y)
    y = b.select(x.equals(-1.0), -INF, y)
    return b.select(x.equals(0.0), x, y)  # -0.0


# --- sin, cos --------------------------------------------------------------------------------------------------------

PI_HALVES = {  # pi/2 in three parts
    "f32": (float.fromhex("0x1.921fb6p+0"), float.fromhex("-0x1.777a5cp-25"), float.fromhex("-0x1.ee59dap-50")),
    "f64": (float.fromhex("0x1.921fb54442d18p+0"), float.fromhex("0x1.1a62633145c07p-54"),
            float.fromhex("-0x1.f1976b7ed8fbcp-110")),
}  # fmt: skip
# (sin(r)/r - 1) / r^2 and (cos(r) - 1) / r^2 as polynomials in r^2 on |r| <= 1.01 pi/4; relative errors of sin 2^-27.8
# and 2^-56.6, of cos 2^-32.8 and 2^-57.1.
SIN = {
    "f32": (-0.16666653752326965, 0.008332106284797192, -0.00019507882825564593),
    "f64": (-0.16666666666666627, 0.00833333333332094, -0.000198412698286187, 2.755731327597047e-06,
            -2.505069246547421e-08, 1.5892961070608187e-10),
}  # fmt: skip
COS = {
    "f32": (-0.5, 0.04166664555668831, -0.0013887297827750444, 2.4430084522464313e-05),
    "f64": (-0.5, 0.04166666666666644, -0.0013888888888859143, 2.4801587282625598e-05, -2.755731273719834e-07,
            2.0875533956142753e-09, -1.1350903260401505e-11),
}  # fmt: skip
# Up to here multiples of pi/2 in three parts are accurate; above, the bits of 1/pi are.
PI_PARTS_LIMIT = {"f32": 2.0**17, "f64": 2.0**28}
# 1/pi = 0.(these hexadecimal digits): enough for the largest double.
INVERSE_PI = int(
    "517cc1b727220a94fe13abe8fa9a6ee06db14acc9e21c820ff28b1d5ef5de2b0db92371d2126e9700324977504e8c90e7f0ef58e"
    "5894d39f74411afa975da24274ce38135a2fbf209cc8eb1cc1a99cfa4e422fc5defc941d8ffc4bffef02cc07f79788c5ad05368f"
    "b69b3f6793e584dba7a31fb34f2ff516ba93dd63f5f2f8bd9e839cfbc529497535fdafd88fc6ae842b0198237e3db5d5f867de10"
    "4d7a1b0ed4f1c8b0",
    16,
)
INVERSE_PI_BITS = 328 * 4
LOW_32 = 0xFFFFFFFF


def _reduce_huge(b: Formula, a: Term) -> tuple[Term, Term]:
    """Payne and Hanek: r and an integer q, its two low bits right, with a = q pi/2 + r, for a > PI_PARTS_LIMIT.

    a = M 2^E. Of 2^E/pi only a window of bits below 2^1 matters; M times that window, in columns of 32 bits held in 64,
    is a/pi mod 2. A window of 3 words (6 for f64) leaves 62 (126) good bits after the quadrant, far more than the
    closest float to a multiple of pi/2 needs. Selects cut the window out of the constant, a round per bit of its
    position.
    """
    fmt = b.format
    words, stages = (3, (4, 2, 1)) if fmt is F32 else (6, (16, 8, 4, 2, 1))
    ints = b.bits(a)
    significand = (ints & ((1 << fmt.mantissa) - 1)) | (1 << fmt.mantissa)
    position = (ints >> fmt.mantissa) - (fmt.bias + fmt.mantissa - 32)  # E + 32: 32 zero bits come first
    if fmt is F32:
        significand, position = (b.convert("zext", v, "i64") for v in (significand, position))
    limbs = [significand] if fmt is F32 else [significand & LOW_32, significand >> 32]

    # Bits 32 i ... 32 i + 63 of 1/pi, the integer bit being number 32.
    shift = INVERSE_PI_BITS - 31
    window = [b.const((INVERSE_PI >> (shift - 32 * i)) % 2**64, "i64") for i in range(words + 2 * stages[0] - 1)]
    for stage in stages:
        later = (position & (stage << 5)).differs(0)
        window = [b.select(later, window[i + stage], window[i]) for i in range(len(window) - stage)]
    offset = position & 31
    window = [(pair << offset) >> 32 for pair in window]

    columns: list[list[Term]] = [[] for _ in range(words)]
    for place, limb in enumerate(limbs):
        for i in range(place, words):
            product = limb * window[i]
            columns[i - place].append(product & LOW_32)
            if i > place:
                columns[i - place - 1].append(product >> 32)
    digits: list[Term] = []
    carry = b.const(0, "i64")
    for column in reversed(columns):
        total = sum(column, carry)
        carry = total >> 32
        digits.insert(0, total & LOW_32)

    turn = (digits[0] << 32) | digits[1]  # a/pi mod 2 in units of 2^-63
    quadrant = (turn + (1 << 61)) >> 62
    flip = b.select((turn << 2) < 0, b.const(-1, "i64"), b.const(0, "i64"))  # r is negative: take its absolute value
    r = b.convert("sitofp", (turn ^ flip) << 2, "double") * 2.0**-64
    half_pi, half_pi_low = PI_HALVES["f64"][:2]
    if fmt is F32:
        r = b.convert("fptrunc", r * half_pi, "float")
        quadrant, flip = (b.convert("trunc", v, "i32") for v in (quadrant, flip))
    else:
        low = (((digits[2] << 32) | digits[3]) ^ flip) >> 1
        r = b.fma(b.convert("sitofp", low, "double"), 2.0**-125, r)
        r = b.fma(r, half_pi, r * half_pi_low)
    return b.flip_sign(r, flip << (fmt.bits - 1)) + (a - a), quadrant  # infinity gives NaN


def _sin_of_quadrant(b: Formula, a: Term, turns: int) -> Term:
    """sin(a + turns pi/2) for a >= 0: a = q pi/2 + r, |r| <= pi/4; q + turns chooses sin or cos of r, and the sign."""
    fmt = b.format
    t = b.fma(a, 0.6366197723675814, fmt.magic)
    n = t - fmt.magic
    r = a
    for part in PI_HALVES[fmt.name]:
        r = b.fma(n, -part, r)
    q = b.bits(t)
    huge = a > PI_PARTS_LIMIT[fmt.name]

    def reduce_huge() -> tuple[Term, Term]:
        far, far_q = _reduce_huge(b, a)
        return b.select(huge, far, r), b.select(huge, far_q, q)

    r, q = b.if_any(huge, reduce_huge, (r, q))
    q = q + turns if turns else q
    z = r * r
    sine = b.fma(z * r, b.polynomial(z, SIN[fmt.name]), r)
    cosine = b.polynomial(z, (1.0, *COS[fmt.name]))
    y = b.select((q << (fmt.bits - 1)) < 0, cosine, sine)
    return b.flip_sign(y, (q << (fmt.bits - 2)) & (1 << (fmt.bits - 1)))


def _sin(b: Formula, x: Term) -> Term:
    return b.flip_sign(_sin_of_quadrant(b, b.abs(x), 0), b.sign_bit(x))


def _cos(b: Formula, x: Term) -> Term:
    return _sin_of_quadrant(b, b.abs(x), 1)


# --- pow, rsqrt ------------------------------------------------------------------------------------------------------

# log2((1+s)/(1-s)) / s as a polynomial in s^2 on |s| <= 1/5; relative error 2^-35.5.
POW_LOG2 = (2.885390081835694, 0.9617966220349295, 0.5770923074846679, 0.41120785189854975, 0.34837329833882325)
# 2^r on |r| <= 1/2; relative error 2^-29.0.
POW_EXP2 = (1.0000000005541998, 0.6931472057371825, 0.2402264689045506, 0.05550328776902202, 0.00961848896798313,
            0.0013399931275260338, 0.00015345810419997217)  # fmt: skip
# (log((1+s)/(1-s)) - 2s - 2/3 s^3) / s^5 as a polynomial in s^2 on |s| <= 1/5; relative error of the log 2^-75.6.
POW_LOG = (0.4, 0.2857142857142683, 0.2222222222271501, 0.18181818110767442, 0.1538462133741731,
           0.13333026313765614, 0.1177458423699303, 0.10333776003492148, 0.11580139241682347)  # fmt: skip
TWO_THIRDS, TWO_THIRDS_REST = 2 / 3, 2.0**-54 / 1.5  # their sum is 2/3 to twice the precision

Pair = tuple[Term, Term]  # an unevaluated sum, the second part below the last place of the first


def _log_edges(b: Formula, x: Term, log: Term) -> Term:
    return b.select(x.equals(0.0), -INF, b.select(x < INF, log, x))


def _power_f32(b: Formula, x: Term, y: Term) -> Term:
    """x^y = 2^(y log2 x) for x >= 0, in doubles; converting back rounds, overflows and underflows."""
    x, y = b.convert("fpext", x, "double"), b.convert("fpext", y, "double")
    k, m = _split(b, x, F64, denormals=False)
    s = (m - 1.0) / (m + 1.0)
    log2 = b.fma(s, b.polynomial(s * s, POW_LOG2), k)
    v = b.at_most(b.at_least(y * _log_edges(b, x, log2), -300.0), 300.0)
    magic = F64.magic + F64.bias
    t = v + magic
    p = b.polynomial(v - (t - magic), POW_EXP2)
    return b.convert("fptrunc", p * b.floats(b.bits(t) << F64.mantissa), "float")


def _product(b: Formula, x: Pair, y: Pair) -> Pair:
    high = x[0] * y[0]
    return high, b.fma(x[0], y[0], -high) + b.fma(x[0], y[1], x[1] * y[0])


def _sum(high: Term, low: Term, rest: Term) -> Pair:
    """high + low + rest, for |high| >= |low| >> |rest|."""
    total = high + low
    return total, ((high - total) + low) + rest


def _power_f64(b: Formula, x: Term, y: Term) -> Term:
    """x^y = e^(y log x) for x >= 0, the logarithm as a pair of doubles."""
    k, m = _split(b, x, F64, denormals=True)
    bottom, bottom_low = _sum(b.at_least(m, 1.0), b.at_most(m, 1.0), b.const(0.0, "double"))
    top = m - 1.0
    quotient = top / bottom
    s = (quotient, (b.fma(-quotient, bottom, top) - quotient * bottom_low) / bottom)
    square = _product(b, s, s)
    series = _sum(b.const(TWO_THIRDS, "double"), square[0] * b.polynomial(square[0], POW_LOG), b.const(TWO_THIRDS_REST, "double"))
    cubic = _product(b, _product(b, s, square), series)
    log_m = _sum(s[0] * 2.0, cubic[0], b.fma(s[1], 2.0, cubic[1]))
    log_x = _sum(k * LN2_SHORT, log_m[0], b.fma(k, LN2_REST, log_m[1]))

    log_high = _log_edges(b, x, log_x[0])
    v = y * log_high
    low = b.fma(y, log_high, -v) + y * log_x[1]
    low = b.select(b.abs(v) < 1000.0, low, 0.0)
    least, most = EXP_BOUNDS["f64"]
    return _exp_in_bounds(b, b.at_most(b.at_least(v, least), most), low)


def _pow(b: Formula, x: Term, y: Term) -> Term:
    largest = b.format.largest
    bounded = b.at_most(b.at_least(y, -largest), largest)  # so that log(1) = 0 times an infinite y is 0
    power = (_power_f32 if b.format is F32 else _power_f64)(b, b.abs(x), bounded)

    half = y * 0.5
    truncated = b.intrinsic("trunc", y)
    odd = y.equals(truncated) & half.differs(b.intrinsic("trunc", half))
    power = b.flip_sign(power, b.select(odd, b.sign_bit(x), 0))
    no_root = (x < 0.0) & (x > -INF) & y.differs(truncated)
    power = b.select(no_root, NAN, power)
    return b.select(x.equals(1.0) | y.equals(0.0), 1.0, power)


def _rsqrt(b: Formula, x: Term) -> Term:
    return 1.0 / b.intrinsic("sqrt", x)


# --- the interface ---------------------------------------------------------------------------------------------------

_UNARY: dict[str, Callable[[Formula, Term], Term]] = {
    "exp": _exp,
    "expm1": _expm1,
    "log": _log,
    "log1p": _log1p,
    "tanh": _tanh,
    "sigmoid": _sigmoid,
    "erf": _erf,
    "sin": _sin,
    "cos": _cos,
    "rsqrt": _rsqrt,
}

FUNCTIONS: tuple[str, ...] = (*_UNARY, "pow")


def function_name(op: str, lanes: int, dtype: str) -> str:
    """The name after `@`; quote it in the text: `call <8 x float> @"ts.exp.v8f32"(<8 x float> %x)`."""
    return f"ts.{op}.v{lanes}{dtype}"


def definition(op: str, lanes: int, dtype: str) -> tuple[str, set[str]]:
    """The text of the function for `op` (one of FUNCTIONS), and the `declare` lines of the intrinsics it calls.

    With one lane it takes and returns scalars. `pow` takes two arguments. `dtype` is "f32" or "f64".
    """
    b = Formula(lanes, FORMATS[dtype])
    type = b.format.float_type
    x, y = Term(b, "%x", type), Term(b, "%y", type)
    result = _pow(b, x, y) if op == "pow" else _UNARY[op](b, x)
    args = ", ".join(b.typed(v) for v in ((x, y) if op == "pow" else (x,)))
    head = f'define internal {b.vector(type)} @"{function_name(op, lanes, dtype)}"({args}) alwaysinline nounwind {{'
    return "\n".join([head, "entry:", *b.lines, f"  ret {b.typed(result)}", "}", ""]), b.declares
