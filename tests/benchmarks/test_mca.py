"""Which loop of a program is simulated, and what counts as a spill; the simulator itself is not needed."""

import re

import mca

ARM = """
.LBB0_1:
	ldr	q0, [x0]
	fmla	v1.4s, v0.4s, v2.s[0]
.LBB0_2:
	cbz	x3, .LBB0_4
	fmla	v1.4s, v0.4s, v2.s[0]
	fmla	v3.4s, v0.4s, v2.s[0]
	fmls	v4.4s, v0.4s, v2.s[0]
.LBB0_4:
	b.lo	.LBB0_2
	fmla	v5.4s, v0.4s, v2.s[0]
	b.ne	.LBB0_1
	fmla	v6.4s, v0.4s, v2.s[0]
.LBB0_5:
	fmla	z1.s, p0/m, z2.s, z3.s
	fmad	z1.s, p0/m, z2.s, z3.s
	b.lo	.LBB0_5
	ret
"""


def test_the_loop_with_most_multiply_adds_that_has_no_other_inside():
    """A branch that goes forward is no loop; the outer one has more of them, and one inside."""
    count, lines = mca.hot_loop(ARM, "aarch64")
    assert count == 3 and lines[-1].split() == ["b.lo", ".LBB0_2"] and len(lines) == 6
    count, lines = mca.hot_loop(ARM[ARM.index(".LBB0_5") :], "aarch64")
    assert count == 2 and len(lines) == 3


def test_spills_are_whole_vectors_on_the_stack():
    spills = ["\tstr\tq1, [sp, #16]", "\tstp\tq1, q2, [x29, #-32]", "\tstr\tz3, [sp, #1, mul vl]"]
    others = ["\tstr\tq1, [x0]", "\tstp\td8, d9, [sp, #16]", "\tstr\tx1, [sp]"]
    assert all(re.match(mca._SPILL["aarch64"], line) for line in spills)
    assert not any(re.match(mca._SPILL["aarch64"], line) for line in others)
