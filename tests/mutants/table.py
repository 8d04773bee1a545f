"""The mutants, in the order in which data passes through the package. See `mutant.py` for what an entry means.

Where code changes and an old text is gone, give the mutant the new text, or another sabotage of the same idea. Where a test moves,
name its new place. `make mutants` says what is out of date and who survives.
"""

from __future__ import annotations

from tests.mutants.mutant import Mutant

IDEAS = "tests/search/test_ideas.py::"
ABLATIONS = "tests/search/test_ablations.py::"
POLICY = "tests/search/test_tensorsmith.py::"
PICKING = "tests/search/test_picking.py::"
SCHEDULER = "tests/search/test_scheduler.py::"
TRANSFER = "tests/search/test_transfer.py::"
EVOLVE = "tests/space/test_evolve.py::"
MODEL = "tests/learn/test_model.py::"
PRIOR = "tests/backends/cpu/test_prior.py::"
LOWER = "tests/program/test_lower.py::"
GENERATE = "tests/backends/cpu/codegen/test_generate.py::"
SCOPES = "tests/backends/cpu/codegen/test_scopes.py::"
NEIGHBOURS = "tests/backends/cpu/codegen/test_rows_of_neighbours.py::"
FOLDING = "tests/backends/cpu/codegen/test_folding.py::"
ACROSS = "tests/backends/cpu/test_across_tile.py::"
RESHAPING = "tests/space/test_reshaping.py::"
DEFAULT = "tests/backends/cpu/test_default.py::"
OF_BYTES = "tests/rewrites/test_winograd_of_bytes.py::"
FUSION = "tests/graph/test_tasks.py::"
MEMORY = "tests/graph/test_memory.py::"
BOUNDED = "tests/graph/test_bounded.py::"
POOL = "tests/runtime/test_pool.py::"
THREADS = "tests/runtime/test_threads.py::"
BENCH = "tests/measure/test_bench.py::"
TIMING = "tests/measure/test_timing.py::"
DISPATCH = "tests/measure/fleet/test_dispatch.py::"
SIMULATED = "tests/measure/fleet/test_simulated.py::"
HOSTILE = "tests/measure/fleet/test_hostile.py::"
STATION = "tests/measure/fleet/test_station.py::"
PUBLISHED = "tests/measure/fleet/test_published.py::"
ELSEWHERE = "tests/tuning/test_elsewhere.py::"
RECORDS = "tests/records/test_store.py::"
NAMES = "tests/records/test_names.py::"
POSITIONS = "tests/lang/test_reductions.py::"
BYTES = "tests/property/test_bytes.py::"
INSTRUCTIONS = "tests/backends/cpu/test_instructions.py::"
INTEGERS = "tests/graph/test_integer.py::"
INDICES = "tests/lang/test_index_check.py::"
KERNELS = "tests/backends/gpu/test_kernels.py::"
MATRIX = "tests/backends/gpu/test_matrix.py::"
GPU_RULES = "tests/backends/gpu/test_rules.py::"
GPU_PRIOR = "tests/backends/gpu/test_prior.py::"
ENSEMBLE = "tests/learn/test_ensemble.py::"
PREDICTED = "tests/test_predicted.py::"
RUN = "tests/tuning/test_run.py::"
FINALS = "tests/tuning/test_finals.py::"
VERDICT = "tests/tuning/test_verdict.py::"
RACE = "tests/tuning/test_race.py::"
REFEREE = "tests/measure/test_referee.py::"
BF16 = "tests/backends/cpu/codegen/test_bf16.py::"
BF16_DOTS = "tests/backends/cpu/test_bf16_dots.py::"
BF16_PRODUCTS = "tests/property/test_bf16_products.py::"
WEIGHTS = "tests/graph/test_weights.py::"
MERGING = "tests/graph/test_merging.py::"
TRANSPOSE = "tests/backends/cpu/codegen/test_transpose.py::"
HEED = "tests/frontends/test_onnx_heed.py::"
CUT = "tests/frontends/test_onnx_cut.py::"
DRAWN = "tests/frontends/test_onnx_random.py::"
WHOLE = "tests/backends/cpu/codegen/test_whole.py::"

_LANGUAGE = (
    Mutant(
        "two-zeros-are-two-values",
        "plain = value + 0.0",
        "plain = value",
        (POSITIONS + "test_positions_are_numpys",),
    ),
    Mutant(
        "the-last-of-equal-values",
        "later = count - 1 - place if largest else place",
        "later = place if largest else count - 1 - place",
        (POSITIONS + "test_positions_are_numpys",),
    ),
    Mutant(
        "a-nan-that-is-not-found",
        "here = here | (value != value)",
        "here = here | (value < value)",
        (POSITIONS + "test_positions_are_numpys",),
    ),
    Mutant(
        "reductions-are-not-shared",
        "if (e, axes) not in self.reductions:",
        "if True:",
        (POSITIONS + "test_a_reduction_inside_of_an_expression_is_a_stage_of_its_own",),
    ),
    Mutant(
        "the-sign-is-lost-by-long-shifts",
        "Select(value < 0, wrap(-1, value.dtype), nothing))",
        "nothing)",
        ("tests/lang/test_bits.py::test_operators_of_integers",),
    ),
    Mutant(
        "what-is-not-read-is-checked",
        "Select(e.cond, a, b))",
        "Binary(op, a, b))",
        (INDICES + "test_a_load_that_is_not_performed_is_not_checked",),
    ),
    Mutant(
        "half-precision-all-the-way",
        "if dtype(e.dtype).is_half else f(e)",
        'if e.dtype == "f99" else f(e)',
        ("tests/lang/test_functions.py::test_the_error_is_small_and_special_values_are_numpys",),
    ),
)

_GRAPH = (
    Mutant(
        "axes-are-merged-where-rows-are-read-in-part",
        "if used and self.shapes[x.tensor][used[1]] != b.extent:",
        "if used and self.shapes[x.tensor][used[1]] < b.extent:",
        (MERGING + "test_a_part_of_the_rows_keeps_axes_apart", MERGING + "test_random_stages_of_several_operands"),
    ),
    Mutant(
        "axes-are-merged-though-their-positions-are-used",
        "if {a.name, b.name} & _outside_of_loads(self.body):",
        "if a.name == b.name:",
        (MERGING + "test_positions_keep_axes_apart", MERGING + "test_random_stages_of_several_operands"),
    ),
    Mutant(
        "products-without-epilogue",
        "if all(self._maps(m, self._value(last)) for m in path):",
        "if not path:",
        (FUSION + "test_a_diamond_behind_a_product_is_one_kernel",),
    ),
    Mutant(
        "fused-though-needed-elsewhere",
        "if leaves[n] or not readers[n]:\n            continue\n        common",
        "if not readers[n]:\n            continue\n        common",
        (FUSION + "test_a_value_needed_elsewhere_ends_the_kernel",),
    ),
    Mutant(
        "expensive-work-is-repeated",
        "return reads(self.graph, self.nodes[reader], name) <= _FEW_READS",
        "return True",
        (FUSION + "test_an_expensive_function_stays_out_of_overlapping_windows",),
    ),
    Mutant(
        "views-do-not-keep-their-memory",
        "last = {root(name, views): n for n, use in enumerate(uses)",
        "last = {name: n for n, use in enumerate(uses)",
        (MEMORY + "test_running_the_plan_never_destroys_a_value_that_is_still_needed",),
    ),
    Mutant(
        "in-place-before-the-last-reader",
        "if slot.last == n and slot.size == size:",
        "if slot.size == size:",
        (MEMORY + "test_not_in_place_while_another_reader_comes_later",),
    ),
    Mutant(
        "a-result-overlaps-its-operand",
        "for n in range(slot.first + 1, slot.last + 1):\n            alive[n].append(slot)",
        "for n in range(slot.first + 1, slot.last):\n            alive[n].append(slot)",
        (MEMORY + "test_running_the_plan_never_destroys_a_value_that_is_still_needed",),
    ),
    Mutant(
        "a-long-life-is-not-seen",
        "if other.first < slot.first <= other.last]",
        "if other.first < slot.first < other.last]",
        (MEMORY + "test_running_the_plan_never_destroys_a_value_that_is_still_needed",),
    ),
    Mutant(
        "a-piece-gives-the-place-of-the-whole",
        "if name not in use.replaceable or name in pieces}",
        "if name not in use.replaceable}",
        (MEMORY + "test_not_in_place_of_what_the_operand_is_a_piece_of",),
    ),
    Mutant(
        "slices-of-steps-are-kernels-of-their-own",
        "if self._in_memory(node.inputs[0]) or self._often_cut(node.inputs[0]):",
        "if not node.inputs:",
        (
            FUSION + "test_a_slice_that_is_one_piece_of_memory_is_a_view_and_no_call",
            FUSION + "test_steps_of_a_loop_are_calls_of_the_same_kernels",
        ),
    ),
    Mutant(
        "a-value-lies-in-two-concats",
        "or len(names) < len(found) or names & taken:",
        "or len(names) < len(found):",
        (FUSION + "test_a_part_that_cannot_lie_in_the_concat_takes_a_kernel",),
    ),
    Mutant(
        "numbers-of-steps-are-in-the-definitions",
        "if len(numbers) > (1 if _is_quantised(structure) else _MANY_NUMBERS)",
        "if not numbers",
        (FUSION + "test_few_numbers_are_in_the_definitions",),
    ),
    Mutant(
        "padding-of-transformed-bytes-is-zero",
        "source = pad_spatial(x, [*pairs[:-2], *over], fill, name",
        "source = pad_spatial(x, [*pairs[:-2], *over], name",
        (OF_BYTES + "test_it_gives_the_sums_of_bytes_exactly",),
    ),
    Mutant(
        "bytes-are-transformed-for-every-machine",
        "+ (_of_bytes(original) if pairs else ())",
        "+ _of_bytes(original)",
        (OF_BYTES + "test_it_is_for_machines_that_multiply_in_pairs",),
    ),
    Mutant(
        "transformed-sums-may-not-fit",
        "_FREE_BITS = 31 - WHOLE_BITS",
        "_FREE_BITS = 31",
        (OF_BYTES + "test_sums_that_i32_could_not_hold_four_times_are_left_alone",),
    ),
    Mutant(
        "transformed-weights-need-not-be-small",
        "transform_weight(kept_if_small(weight) if small else weight, tile)",
        "transform_weight(weight, tile)",
        (OF_BYTES + "test_what_is_not_small_counts_as_zero_here_too",),
    ),
    Mutant(
        "a-weight-is-packed-for-every-step",
        "if (base, kernel, number) not in self.packed:",
        "if base:",
        ("tests/graph/test_model.py::test_a_weight_is_packed_once_for_all_steps",),
    ),
)

_ONNX = (
    Mutant(
        "an-attribute-that-says-nothing-is-refused",
        'none = bool(node.version >= since and node.attribute("noop_with_empty_axes", 0))',
        'none = not axes and bool(node.version >= since and node.attribute("noop_with_empty_axes", 0))',
        (HEED + "test_attributes_without_effect_are_taken", "tests/frontends/test_onnx_patterns.py::test_patterns_of_exporters"),
    ),
    Mutant(
        "outputs-that-nobody-reads-are-asked-for",
        "scope.refused |= dict.fromkeys(node.output[len(results) :], few)",
        "scope.find(few, few) if len(results) < len(node.output) else None",
        (HEED + "test_outputs_that_nobody_reads_are_taken",),
    ),
    Mutant(
        "nodes-that-no-output-needs",
        "if any(name in wanted for name in node.output):\n            kept.append(node)\n            wanted.update(reads_of(node))",
        "if True:\n            kept.append(node)\n            wanted.update(reads_of(node))",
        (CUT + "test_nodes_that_no_output_needs_are_not_looked_at", CUT + "test_a_detector_is_cut_before_it_chooses"),
    ),
    Mutant(
        "what-an-inner-graph-reads-is-cut-off",
        "yield from _captured(attribute.g)",
        "yield from ()",
        (CUT + "test_what_an_inner_graph_reads_of_the_outer_one_stays",),
    ),
    Mutant(
        "a-seed-that-does-not-count",
        'text = f"{self.seed} {len(self._keys)}',
        'text = f"0 {len(self._keys)}',
        (DRAWN + "test_calls_differ_and_so_do_nodes_and_seeds_and_all_of_it_comes_again",),
    ),
    Mutant(
        "a-round-of-the-generator-less",
        "for n in range(ROUNDS):",
        "for n in range(ROUNDS - 1):",
        (DRAWN + "test_the_generator_gives_its_known_answers",),
    ),
    Mutant(
        "every-call-draws-the-same",
        "number, self._number = self._number, (self._number + 1) % _NUMBERS",
        "number = self._number",
        (DRAWN + "test_calls_differ_and_so_do_nodes_and_seeds_and_all_of_it_comes_again",),
    ),
    Mutant(
        "sizes-count-calls-by-themselves",
        "executable.calls = self.calls",
        "pass",
        (DRAWN + "test_open_dimensions_share_the_count",),
    ),
    Mutant(
        "the-factor-of-a-quantised-product",
        "scale = scale if alpha == 1 else",
        "scale = scale if alpha <= 1 else",
        ("tests/frontends/test_onnx_contrib.py::test_qgemm",),
    ),
)

_SPACE = (
    Mutant(
        "work-inside-does-not-count",
        "taken, sum(map(_work, inside)))",
        "taken, _work(stage))",
        (DEFAULT + "test_work_that_is_computed_inside_counts_for_the_threads",),
    ),
    Mutant(
        "threads-share-loops-inside-of-others",
        "outer[: min(depths, default=len(outer))], taken",
        "outer, taken",
        (DEFAULT + "test_loops_inside_which_others_are_computed_for_all_of_them_are_not_shared",),
    ),
    Mutant(
        "one-thread-does-all-of-it",
        "if shared < self.target.cores and _work(stage)",
        "if shared < 1 and _work(stage)",
        (DEFAULT + "test_one_thread_does_not_do_all_of_it_where_the_loops_around_run_once",),
    ),
    Mutant(
        "an-exponential-is-an-addition",
        "(_EXPENSIVE if is_expensive(stage.body) else 1)",
        "1",
        (DEFAULT + "test_exponentials_count_more_than_additions",),
    ),
    Mutant(
        "short-rows-one-by-one",
        "return depth - 1 if depth > 1 and row",
        "return depth if depth > 1 and row",
        (DEFAULT + "test_short_rows_are_computed_several_at_a_time",),
    ),
    Mutant(
        "rows-that-leave-the-cache",
        "and small and enough else depth",
        "and enough else depth",
        (DEFAULT + "test_short_rows_are_computed_several_at_a_time",),
    ),
    Mutant(
        "rows-that-wait-for-nothing",
        "if math.prod(last.shape) >= math.prod(sizes):",
        "if not sizes:",
        (DEFAULT + "test_what_is_only_read_element_by_element_waits_for_nothing",),
    ),
    Mutant(
        "columns-are-rows",
        "[a for a in enough if a is not self.stage.axes[-1]] or enough",
        "enough",
        (DEFAULT + "test_rows_of_a_tile_are_not_its_columns",),
    ),
    Mutant(
        "sums-wait-for-each-other",
        "if _STREAMED_ROWS * -(-self.vector_axis.extent // self.lanes) < self._sums_in_flight():",
        "if not self.lanes:",
        (DEFAULT + "test_images_are_not_streamed_where_sums_would_wait_for_each_other",),
    ),
    Mutant(
        "no-second-axis-joins",
        "return {axes[-1].name: max(sizes)} if sizes else {}",
        "return {}",
        (DEFAULT + "test_where_a_tile_has_few_sums_a_second_axis_joins",),
    ),
    Mutant(
        "exponentials-one-by-one",
        "alone = _ALONE if any(",
        "alone = 0 if any(",
        (DEFAULT + "test_an_exponential_of_each_result_has_no_lanes_on_a_tile_along_the_reduction",),
    ),
    Mutant(
        "a-row-of-taps-for-strides",
        "if step != 1 or tap_step != 1 or",
        "if tap_step != 1 or",
        (
            "tests/backends/cpu/test_window_tile.py::test_no_row_of_taps_where_neighbours_share_no_values_or_most_taps_are_on_padding",
        ),
    ),
    Mutant(
        "crossover-copies-a-parent",
        "rows = np.where(from_b[:, node], b, a).astype(np.int32)",
        "rows = a.astype(np.int32)",
        (EVOLVE + "test_a_child_has_nodes_of_both_parents",),
    ),
    Mutant(
        "crossover-cuts-through-nodes",
        "from_b = rng.random((len(a), int(node.max(initial=0)) + 1)) < 0.5\n    rows = np.where(from_b[:, node], b, a)",
        "rows = np.where(rng.random(a.shape) < 0.5, b, a)",
        (EVOLVE + "test_a_node_comes_from_one_parent",),
    ),
    Mutant(
        "mutation-changes-nothing",
        "active = np.ones(len(rows), bool)",
        "active = np.zeros(len(rows), bool)",
        (EVOLVE + "test_every_hole_changes",),
    ),
    Mutant(
        "mutation-of-sizes-only",
        "chosen = rng.choice(len(moves), len(rows), p=weights / weights.sum())",
        "chosen = np.zeros(len(rows), np.int64)",
        (EVOLVE + "test_every_hole_changes", EVOLVE + "test_a_mutation_changes_what_it_says"),
    ),
    Mutant(
        "factors-get-lost",
        "sizes[lines, goal] *= factor",
        "pass",
        (EVOLVE + "test_a_factor_goes_from_one_part_of_an_axis_to_another",),
    ),
    Mutant(
        "any-number-of-new-structures",
        "if len(fresh) > most:",
        "if len(fresh) > 1000 * most:",
        (EVOLVE + "test_few_new_structures",),
    ),
    Mutant(
        "repair-lets-tiles-overflow",
        "wide = product(tile, len(part)) > limits.vectors",
        "wide = product(tile, len(part)) < 0",
        ("tests/space/test_population.py::test_repair_makes_register_tiles_fit",),
    ),
    Mutant(
        "sizes-are-not-carried-over",
        "rows = _carried(plan, options, candidate)",
        "rows = np.array([[c.idle for c in plan.columns]], np.int32)",
        ("tests/space/test_adapt.py::test_sizes_follow_what_they_were_chosen_for",),
    ),
)

_PROGRAM = (
    Mutant(
        "regions-without-their-halo",
        "length = length + abs(coefficient) * (count - 1)",
        "length = length + (abs(coefficient) - 1) * (count - 1)",
        (LOWER + "test_halo_region",),
    ),
    Mutant(
        "splits-round-down",
        "left = ceil_div(left, used)",
        "left = maximum(1, left // used)",
        (LOWER + "test_split",),
    ),
    Mutant(
        "the-first-reader-s-region",
        "high = maximum(start_a.offset + length_a, start_b.offset + length_b)",
        "high = start_a.offset + length_a",
        (LOWER + "test_region_of_two_readers_is_their_union",),
    ),
    Mutant(
        "packed-in-any-order",
        "loops = sorted((v for v in every if v.name in used), key=lambda v: last.index(v.name) + 1 if v.name in last else 0)",
        "loops = [v for v in every if v.name in used]",
        (LOWER + "test_lanes_are_neighbours_in_a_packed_constant",),
    ),
)

_CODE = (
    Mutant(
        "out-of-the-loop-that-changes-it",
        "if loop > depends:",
        "if loop >= depends:",
        (SCOPES + "test_code_means_what_it_says_wherever_its_instructions_went",),
    ),
    Mutant(
        "known-behind-the-branch-that-computed-it",
        "del self._known[text]  # only here",
        "pass  # only here",
        (SCOPES + "test_what_a_branch_computes_is_not_there_behind_it_nor_in_the_other",),
    ),
    Mutant(
        "a-branch-goes-the-other-way-inside-itself",
        "return scope.condition[1]",
        "return not scope.condition[1]",
        (SCOPES + "test_a_branch_that_was_decided_is_not_taken_again",),
    ),
    Mutant(
        "loops-that-seem-to-count-further",
        "first, last = 0, max(1, int(self.loops[name].count)) - 1",
        "first, last = -1, max(1, int(self.loops[name].count)) + 999",
        (SCOPES + "test_conditions_that_always_hold_are_not_tested",),
    ),
    Mutant(
        "repeated-loads-are-tidy",
        "if scope.innermost and scope.repeats:",
        "if not scope:",
        (SCOPES + "test_what_a_loop_loads_again_and_again_is_not_tidy",),
    ),
    Mutant(
        "neighbours-share-a-set",
        "total = total + meet * (spacing.gap // size)",
        "pass",
        (
            "tests/program/test_layout.py::test_neighbours_are_kept_off_one_set",
            "tests/backends/cpu/features/test_golden.py::test_memory_of_our_own_has_gaps_that_keep_rows_off_one_set",
        ),
    ),
    Mutant(
        "ansor-features-forget-earlier-stores",
        "if len(entries) > 1:",
        "if len(entries) > 2:",
        ("tests/learn/features/test_ansor.py::test_a_copy_in_the_loop_that_reads_it",),
    ),
    Mutant(
        "ansor-features-touch-whole-rows",
        "low[d][p] + np.minimum(far, 0), high[d][p] + np.maximum(far, 0)",
        "low[d][p] + np.minimum(far, 0), np.maximum(high[d][p], far)",
        ("tests/learn/features/test_ansor.py::test_a_convolution_by_hand",),
    ),
    Mutant(
        "the-pragma-unrolls-one-loop-too-many",
        "flag(steps * count * stores <= limit)",
        "flag(steps * stores <= limit)",
        ("tests/learn/features/test_ansor.py::test_the_pragma_unrolls_whole_loops_from_the_innermost_one_on",),
    ),
    Mutant(
        "features-take-short-loops-for-loops",
        "return {x.name: where(is_written_whole(x.laid_out, x.count, n), x.count, n) for x, n in zip(loops, in_a_row)}",
        "return {x.name: n for x, n in zip(loops, in_a_row)}",
        ("tests/property/test_features.py::test_steps_load_and_compute_what_the_features_say",),
    ),
    Mutant(
        "whatever-is-attached-stays-in-registers",
        "if block.outer_reduce or (reader.stage.reduction and reader.reduce):",
        "if reader.stage.reduction and reader.reduce:",
        ("tests/program/test_registers.py::test_what_is_added_to_goes_through_memory",),
    ),
    Mutant(
        "neighbouring-rows-are-interleaved",
        "pairs = list(zip(vectors, vectors[width // 2 :]))",
        "pairs = list(zip(vectors[::2], vectors[1::2]))",
        (TRANSPOSE + "test_random_transposes", TRANSPOSE + "test_squares_with_idle_lanes"),
    ),
    Mutant(
        "all-squares-are-loaded-before-any-is-stored",
        "for numbers in squares(self.body, block, points):",
        "for numbers in [range(len(points))]:",
        (TRANSPOSE + "test_squares_are_not_spilled",),
    ),
    Mutant(
        "rounded-together-with-the-zero-point",
        'limits = [arith.binary("sub", n, arith.cast("f32", zero)) for n in limits]',
        'value, zero = arith.binary("add", value, arith.cast("f32", zero)), None',
        (WHOLE + "test_as_numpy_makes_them",),
    ),
    Mutant(
        "an-integer-is-not-wrapped-on-the-way",
        "return found if limits.min <= found.low and found.high <= limits.max else None",
        "return found if limits.min < limits.max else None",
        (WHOLE + "test_limits_that_the_type_does_not_hold_are_wrapped_by_it", WHOLE + "test_as_numpy_makes_them"),
    ),
    Mutant(
        "one-thread-turns-a-long-matrix-over",
        "steps = [-(-stage.axis(loop.axis).extent // sizes.get(loop.axis, 1)) if loop.part == 0 else 1 for loop in outer]",
        "steps = [stage.axis(loop.axis).extent if loop.part == 0 else 1 for loop in outer]",
        (TRANSPOSE + "test_all_threads_turn_a_long_matrix_over",),
    ),
    Mutant(
        "neighbours-begin-with-the-first-lane",
        'total = i64(first) if running is None else self.arith.binary("add", self.total(running), i64(first))',
        "total = i64(0) if running is None else self.total(running)",
        (NEIGHBOURS + "test_they_are_right",),
    ),
    Mutant(
        "neighbours-are-loaded-lane-by-lane",
        "if step != 1 or (not inside and mask in (None, _ANYWHERE)):",
        "if step != 1 or not inside or mask is None:",
        (NEIGHBOURS + "test_they_are_loaded_as_vectors",),
    ),
    Mutant(
        "outputs-in-any-order-are-reshaped",
        "in_order = all(reads_in_order(stage, x, source.shape) for x in found)",
        "in_order = True",
        (RESHAPING + "test_what_is_read_twice_or_in_another_order_is_not_reshaped",),
    ),
    Mutant(
        "parts-of-an-axis-in-the-wrong-order",
        "value * part.extent + Var(part.name)",
        "value + Var(part.name) * part.extent",
        (RESHAPING + "test_reshaped_outputs_have_the_same_elements", RESHAPING + "test_parts"),
    ),
    Mutant(
        "outputs-keep-their-shape",
        "elif self._reshapes(self.now.stage(name)):",
        "elif False:",
        (RESHAPING + "test_the_default_schedule_computes_what_follows_on_the_tiles",),
    ),
    Mutant(
        "concatenations-are-chosen-as-they-run",
        "return any(axis in fact.terms for cond in tested for fact in conjuncts(cond))",
        "return False",
        (NEIGHBOURS + "test_vectors_that_read_one_tensor_know_it", NEIGHBOURS + "test_rows_are_shared_and_what_is_chosen_is_not"),
    ),
    Mutant(
        "known-lanes-may-be-anywhere",
        "if running is not None else (first, first + lanes.active - 1)",
        "if running is not None or first >= 0 else None",
        (NEIGHBOURS + "test_they_are_loaded_as_vectors",),
    ),
    Mutant(
        "sums-are-folded-one-by-one",
        "return [total for n in range(0, len(vectors), width) for total in _of_some(arith, op, vectors[n : n + width])]",
        "return [total for v in vectors for total in _of_some(arith, op, [v])]",
        (FOLDING + "test_eight_sums_share_moves_and_additions",),
    ),
    Mutant(
        "blocks-of-sums-are-not-exchanged",
        "low = [*range(half), *range(width, width + half)]",
        "low = [*range(half), *range(half)]",
        (FOLDING + "test_any_number_of_results_and_lanes",),
    ),
    Mutant(
        "phases-are-not-on-the-tile",
        "columns = last.extent * math.prod(beside.values())",
        "columns = last.extent",
        (ACROSS + "test_results_of_a_tile_are_neighbours_in_memory",),
    ),
    Mutant(
        "halves-cost-as-much-as-wholes",
        "return 0.5 if target.halves_are_free and 2 * lanes <= width else 1.0",
        "return 1.0",
        (ACROSS + "test_lanes_run_along_what_takes_fewer_cycles",),
    ),
    Mutant(
        "no-vector-for-the-rest",
        "if rest:\n        width = 1 << (rest - 1).bit_length()",
        "if rest and not found:\n        width = 1 << (rest - 1).bit_length()",
        (GENERATE + "test_vector_tails",),
    ),
    Mutant(
        "idle-lanes-are-stored",
        "parts = pieces(lanes.active)",
        "parts = pieces(lanes.width)",
        (GENERATE + "test_vector_tails",),
    ),
    Mutant(
        "the-border-is-one-off",
        'one = self.f.op(f"icmp sge i64 {self.body.total(running).text}, {-low}", "bool")',
        'one = self.f.op(f"icmp sge i64 {self.body.total(running).text}, {-low - 1}", "bool")',
        (GENERATE + "test_padded_sums",),
    ),
    Mutant(
        "blocks-of-a-sum-are-not-added",
        "if all(isinstance(b, int) and b == 0 for b in bounds):\n            return results",
        "if bounds is not None:\n            return results",
        (GENERATE + "test_reductions_of_every_length",),
    ),
    Mutant(
        "the-rest-of-a-sum-is-left-out",
        "for n in range(main, trips):\n                state = once(n, state)",
        "for n in range(main, whole - 1):\n                state = once(n, state)",
        (GENERATE + "test_reductions_of_every_length",),
    ),
    Mutant(
        "spread-sums-are-not-joined",
        "return functools.reduce(lambda a, b: self.arith.binary(_OPERATIONS[self.op], a, b), sums)",
        "return sums[0]",
        (GENERATE + "test_few_results_spread_their_steps",),
    ),
    Mutant(
        "temporaries-share-memory-while-alive",
        "return bool(one and other) and one[0] <= other[-1] and other[0] <= one[-1]",
        "return bool(one and other) and one[0] < other[-1] and other[0] < one[-1]",
        ("tests/program/test_memory.py::test_what_lives_together_lies_apart",),
    ),
)

_GPU = (
    Mutant(
        "threads-never-wait-for-each-other",
        "return bool(next_.stored & (self.read | self.stored) or next_.read & self.stored)",
        "return False",
        (KERNELS + "test_kernels_are_right",),
    ),
    Mutant(
        "a-block-fetches-for-one-thread",
        "length = length + start.terms[name] * (shared[name] - 1)",
        "length = length + 0",
        (KERNELS + "test_kernels_are_right",),
    ),
    Mutant(
        "the-odd-thread-out-of-a-reduction",
        "half = -(-left // 2)",
        "half = max(1, left // 2)",
        (KERNELS + "test_threads_that_are_no_power_of_two",),
    ),
    Mutant(
        "blocks-of-less-than-a-warp",
        "few = threads_of(root, found) < wanted",
        "few = threads_of(root, found) < 0",
        (GPU_RULES + "test_every_row_is_within_the_limits",),
    ),
    Mutant(
        "a-lane-gives-the-value-of-another",
        "LEFT = tuple(Operand(n // 2 % 2, n % 2 + 8 * (n // 4)) for n in range(8))",
        "LEFT = tuple(Operand(n // 4, n % 2 + 8 * (n // 2 % 2)) for n in range(8))",
        (MATRIX + "test_ptx_is_right",),
    ),
    Mutant(
        "lanes-need-not-meet",
        "else ()), Meet(), *found]",
        "else ()), *found]",
        (MATRIX + "test_ptx_is_right",),
    ),
    Mutant(
        "half-a-matrix-instruction",
        "if a.extent and a.extent % STEPS == 0 and",
        "if a.extent and",
        (MATRIX + "test_which_products_and_machines_have_them",),
    ),
    Mutant(
        "sizes-of-the-structure-are-drawn",
        "Column(hole.name, self.name, hole.stage, given, given, hole.loop, vector, given)",
        "Column(hole.name, self.name, hole.stage, 1, given, hole.loop, vector, given)",
        (MATRIX + "test_every_row_is_within_the_limits",),
    ),
    Mutant(
        "nobody-waits-for-what-is-copied",
        "*([Wait()] if any(",
        "*([] if any(",
        ("tests/backends/gpu/test_apart.py::test_copies_apart_are_right",),
    ),
    Mutant(
        "the-hosts-memory-is-swept-for-a-device",
        "self._frame.of.driver.fill(self._device_swept[0], size, POISON)",
        "np.zeros(size)",
        ("tests/backends/gpu/test_running.py::test_runs_that_find_nothing_in_the_caches",),
    ),
    Mutant(
        "registers-are-given-one-by-one",
        "of_warp = -(-granted * target.warp // target.register_unit) * target.register_unit",
        "of_warp = granted * target.warp",
        (GPU_PRIOR + "test_resident_blocks",),
    ),
    Mutant(
        "every-lane-has-a-word-of-its-own",
        "new[:, 1:] = words[:, 1:] != words[:, :-1]",
        "new[:, 1:] = True",
        (GPU_PRIOR + "test_wavefronts_and_sectors", GPU_PRIOR + "test_known_patterns"),
    ),
    Mutant(
        "no-tail-wave",
        "turns = np.ceil(blocks / target.multiprocessors)",
        "turns = np.maximum(1, blocks / target.multiprocessors)",
        (GPU_PRIOR + "test_tail_waves",),
    ),
    Mutant(
        "virtual-threads-load-for-themselves",
        "for v in (*at.played, *block.tile):\n                often = often * np.where(access.moves(v.name)",
        "for v in (*at.played, *block.tile):\n                often = often * np.where(access.moves(v.name) | (v.bound != '')",
        ("tests/backends/gpu/test_features.py::test_a_matrix_product",),
    ),
    Mutant(
        "what-is-loaded-at-once-is-said-to-be-aligned",
        "multiple = math.gcd(multiple, coefficient)",
        "multiple = max(multiple, coefficient)",
        ("tests/backends/gpu/test_generated_ptx.py::test_steps_that_are_no_multiple_of_four_elements",),
    ),
    Mutant(
        "a-kernel-that-failed-is-done",
        "if code == SUCCESS:",
        "if code != NOT_READY:",
        ("tests/backends/gpu/test_cuda.py::test_a_kernel_that_touches_what_is_not_its_own",),
    ),
    Mutant(
        "an-object-is-loaded-that-is-not-linked",
        "return linked(base64.b64decode(launches.text), target.architecture)",
        "return base64.b64decode(launches.text)",
        ("tests/backends/gpu/test_hip.py::test_a_workload",),
    ),
    Mutant(
        "what-hip-still-reads-is-let-go",
        "weakref.finalize(self, _unload, driver.api, self._handle, image)",
        "weakref.finalize(self, _unload, driver.api, self._handle, None)",
        ("tests/backends/gpu/test_hip.py::test_a_workload",),
    ),
    Mutant(
        "code-for-one-of-amds-gpus-runs-on-all",
        "lambda code, here: code == here",
        "lambda code, here: True",
        ("tests/backends/gpu/test_hip.py::test_where_code_can_run",),
    ),
    Mutant(
        "the-highest-clock-is-that-of-now",
        'return self.api.interface.clocks(held.value.decode(errors="replace").lower()) or at_most(self.target.clock)',
        "return at_most(self.target.clock)",
        ("tests/backends/gpu/test_cuda.py::test_clocks_of_now", "tests/backends/gpu/test_hip.py::test_clocks_of_now"),
    ),
    Mutant(
        "a-note-is-not-kept",
        '"note": clean(t.note),',
        '"note": "",',
        ("tests/records/test_store.py::test_a_record_comes_back_whole",),
    ),
    Mutant(
        "rows-that-lie-across-are-dealt-out-along",
        'across=".trans",',
        'across="",',
        (MATRIX + "test_operands_are_loaded_by_rows",),
    ),
    Mutant(
        "rows-begin-anywhere",
        "return form.offset % PIECE == 0 and all(c % PIECE == 0 for name, c in form.terms.items() if name not in neighbours)",
        "return True",
        (MATRIX + "test_operands_are_loaded_by_rows",),
    ),
    Mutant(
        "parts-that-are-no-whole-instructions",
        "if axis.extent % (n * STEPS) == 0] or parts",
        "if axis.extent % n == 0] or parts",
        (MATRIX + "test_split_reductions",),
    ),
    Mutant(
        "what-others-took-is-given-back",
        "_given[address] = (managed, extents, array)",
        "_given[address] = (managed, extents, None)",
        ("tests/backends/gpu/test_cuda.py::test_dlpack",),
    ),
    Mutant(
        "an-estimate-that-is-no-better-is-taken",
        'default is not None and default < self.seconds.get(task.workload, float("inf")):',
        "default is not None and default < 0:",
        ("tests/tuning/test_estimated.py::test_the_default_schedule_is_kept_where_nothing_is_better",),
    ),
    Mutant(
        "points-past-the-end-are-stored",
        "self.linear(binding.local), number(int(binding.length))",
        "self.linear(binding.local), number(int(binding.length) + 1)",
        (KERNELS + "test_one_point_too_many",),
    ),
)

_RUNTIME = (
    Mutant(
        "an-input-is-filled-up-with-anything",
        "made = aligned_zeros(argument.shape, argument.numpy_dtype)",
        "made = aligned_empty(argument.shape, argument.numpy_dtype)",
        ("tests/runtime/test_padding.py::test_around_an_input_there_are_zeros",),
    ),
    Mutant(
        "the-last-share-is-cut",
        "%share = udiv i64 %up.less, %threads",
        "%share = udiv i64 %count, %threads",
        (POOL + "test_every_index_runs_once",),
    ),
    Mutant(
        "nobody-steals",
        "%more = icmp ult i64 %v.next, %threads\n  br i1 %more, label %victims",
        "%more = icmp ult i64 %v.next, 0\n  br i1 %more, label %victims",
        (POOL + "test_every_index_runs_once",),
    ),
    Mutant(
        "nobody-waits-for-the-workers",
        "br i1 %empty, label %joined, label %join",
        "br label %joined",
        (POOL + "test_a_region_ends_when_the_last_worker_has",),
    ),
)

_LEARNING = (
    Mutant(
        "scores-are-all-zero",
        "return [np.array([self._known[key] for key in ks], float) for ks in keys]",
        "return [np.zeros(len(ks)) for ks in keys]",
        (IDEAS + "test_the_model_ranks_what_it_has_not_seen", IDEAS + "test_what_the_model_likes_is_measured"),
    ),
    Mutant(
        "trees-are-not-asked",
        "return total + base if self.adds_to_base else total",
        "return 0 * total + base",
        (MODEL + "test_learns_the_order", IDEAS + "test_the_model_ranks_what_it_has_not_seen"),
    ),
    Mutant(
        "the-prior-is-no-base",
        "return total + base if self.adds_to_base else total",
        "return total",
        (MODEL + "test_a_base_that_knows_the_answer_is_kept",),
    ),
    Mutant(
        "ranks-upside-down",
        "should = _logistic(self.log[mine] - self.log[others])",
        "should = _logistic(self.log[others] - self.log[mine])",
        (MODEL + "test_learns_the_order", IDEAS + "test_the_model_ranks_what_it_has_not_seen"),
    ),
    Mutant(
        "never-learns",
        "self.model.update(self.samples())",
        "pass",
        (IDEAS + "test_the_model_ranks_what_it_has_not_seen",),
    ),
    Mutant(
        "old-scores-are-kept",
        "self.scorer.forget()",
        "pass",
        (IDEAS + "test_the_model_ranks_what_it_has_not_seen",),
    ),
    Mutant(
        "failures-are-not-learned-from",
        "for t in self.told.values():\n            samples.add",
        "for t in (t for t in self.told.values() if t.seconds is not None):\n            samples.add",
        (IDEAS + "test_what_fails_is_avoided",),
    ),
    Mutant(
        "loaded-trees-are-forgotten",
        "init_model=self.kept,",
        "init_model=None,",
        ("tests/learn/test_model_kinds.py::test_what_was_loaded_survives_updates",),
    ),
    Mutant(
        "a-threshold-goes-right",
        "np.less_equal(columns[feature], bounds, out=below)",
        "np.less(columns[feature], bounds, out=below)",
        ("tests/learn/test_forest.py::test_a_value_at_a_threshold_goes_left",),
    ),
    Mutant(
        "a-plan-is-diverse-whatever-the-scores",
        "scores = score(self.plan).tolist() if s.alpha else [0.0] * len(self.plan)",
        "scores = [0.0] * len(self.plan)",
        ("tests/baselines/test_annealing.py::test_the_plan_of_the_paper_is_by_score_where_alpha_is_small",),
    ),
    Mutant(
        "bagging-draws-nothing",
        "drawn = np.random.default_rng((self.doubt.seed, n)).integers(0, max(1, len(samples)), len(samples))",
        "drawn = np.arange(len(samples))",
        ("tests/baselines/test_bagged.py::test_members_differ_and_a_doubt_is_worth_kappa",),
    ),
    Mutant(
        "transfer-teaches-nothing",
        "samples.add(features, best[key] / ran[n][1], key, prior)",
        "samples.add(features, 1.0, key, prior)",
        (TRANSFER + "test_a_search_that_was_taught_begins_better",),
    ),
    Mutant(
        "no-register-is-ever-spilled",
        '"registers_spilled": np.maximum(0.0, used - target.vector_registers),',
        '"registers_spilled": 0.0 * used,',
        (PRIOR + "test_a_tile_that_fits_the_registers_beats_others",),
    ),
    Mutant(
        "all-lanes-are-useful",
        '"lanes_useful": useful,',
        '"lanes_useful": 0.0 * useful + 1.0,',
        ("tests/backends/cpu/features/test_golden.py::test_tails_of_vectors_and_tiles",),
    ),
    Mutant(
        "threads-do-not-help-the-prior",
        "cycles / threads / m.hertz + start",
        "cycles / m.hertz + start",
        (PRIOR + "test_threads_help_if_there_is_enough_to_share",),
    ),
    Mutant(
        "spills-cost-nothing",
        '"spills": steps * raw("registers_spilled") * m.spill_cycles,',
        '"spills": 0 * steps,',
        (PRIOR + "test_more_trouble_takes_longer",),
    ),
)

_MACHINES = (
    Mutant(
        "vectors-of-another-length",
        "if target.scalable_bytes not in (0, here.scalable_bytes):",
        "if False:",
        ("tests/backends/cpu/test_arm.py::test_what_runs_where",),
    ),
    Mutant(
        "advice-is-a-feature",
        'if f.startswith("+") and f[1:] not in _ADVICE)',
        'if f.startswith("+"))',
        ("tests/backends/cpu/test_arm.py::test_what_runs_where",),
    ),
    Mutant(
        "a-shared-cache-is-each-core's",
        "if 3 not in found and found[2].shared_by >= _LEAST_SHARED:",
        "if False:",
        ("tests/backends/cpu/test_arm.py::test_a_board_whose_cores_share_their_second_cache",),
    ),
    Mutant(
        "indices-are-not-looked-at",
        "network, guard = self._exported()",
        "network, guard = self.network, None",
        ("tests/backends/cpu/export/test_export.py::test_a_library_checks_indices_if_the_executable_does",),
    ),
    Mutant(
        "weights-anywhere",
        'section(b".rodata", _PROGRAM, _ALLOCATED, 0, 0, 0, ALIGNMENT, 0)',
        'section(b".rodata", _PROGRAM, _ALLOCATED, 0, 0, 0, 1, 0)',
        (
            "tests/backends/cpu/export/test_export.py::test_weights_say_how_they_are_aligned",
            "tests/backends/cpu/export/test_export.py::test_linked_weights_are_aligned",
        ),
    ),
    Mutant(
        "a-name-of-a-model-in-a-comment",
        'what = f"/* {name}: {argument.dtype}',
        'what = f"/* {argument.name}: {argument.dtype}',
        (
            "tests/backends/cpu/export/test_names.py::test_names_of_inputs_and_outputs_are_data",
            "tests/backends/cpu/export/test_names.py::test_nothing_but_identifiers_and_strings",
        ),
    ),
    Mutant(
        "a-name-of-a-model-as-it-is-in-a-string",
        """chr(b) if chr(b) in _HARMLESS else f"\\\\{b:03o}" for b in data""",
        """chr(b) for b in data""",
        (
            "tests/backends/cpu/export/test_names.py::test_strings_say_what_they_said",
            "tests/backends/cpu/export/test_names.py::test_graph_input_and_output_of_one_name_compile",
        ),
    ),
    Mutant(
        "a-parameter-of-a-library-without-a-prefix",
        'name = first = f"{prefix}_{word(text) or n}"',
        'name = first = f"{word(text) or prefix}"',
        (
            "tests/backends/cpu/export/test_names.py::test_graph_input_and_output_of_one_name_compile",
            "tests/backends/cpu/export/test_names.py::test_names_stay_recognisable",
        ),
    ),
    Mutant(
        "a-library-called-as-its-model",
        'return "_".join(filter(None, ("net", word(text))))',
        'return word(text) or "net"',
        ("tests/backends/cpu/export/test_names.py::test_a_library_is_built_whatever_its_graph_is_called",),
    ),
    Mutant(
        "the-compiler-s-first-line",
        "return plain((wrong or lines or",
        "return plain((lines or",
        ("tests/backends/cpu/export/test_names.py::test_what_the_compiler_says_is_said",),
    ),
    Mutant(
        "names-of-tensors-in-kernels-for-gpus",
        'return name.replace("_", "__").replace(".", "_")\n    kept',
        'return name.replace("_", "__").replace(".", "_")\n    return name\n    kept',
        (
            "tests/backends/gpu/test_names.py::test_a_compiler_takes_c",
            "tests/backends/gpu/test_names.py::test_llvm_takes_it_for_every_machine",
        ),
    ),
    Mutant(
        "arrays-called-as-variables",
        'return f"a_{_identifier(name)}"',
        'return f"v_{_identifier(name)}"',
        (
            "tests/backends/gpu/test_names.py::test_a_compiler_takes_c",
            "tests/backends/gpu/test_names.py::test_identifiers_differ_where_names_do",
        ),
    ),
    Mutant(
        "text-of-a-model-as-it-is",
        "return shown if shown.isprintable() else",
        "return shown if shown else",
        ("tests/cli/test_strangers.py::test_one_function", "tests/cli/test_strangers.py::test_objects"),
    ),
    Mutant(
        "what-a-run-says-as-it-is",
        "console.print(page(text), markup=False)",
        "console.print(text, markup=False)",
        ("tests/cli/test_strangers.py::test_what_a_run_says",),
    ),
    Mutant(
        "errors-as-they-are",
        'return page("".join(words(part)',
        'return str("".join(words(part)',
        ("tests/cli/test_strangers.py::test_errors_warnings_and_logs",),
    ),
    Mutant(
        "a-temporary-name-that-can-be-foreseen",
        'path.with_name(f".{secrets.token_hex(16)}.part")',
        'path.with_name(f".{path.name}.part")',
        ("tests/test_files.py::test_nobody_can_foresee_the_name", "tests/test_files.py::test_a_link_is_not_followed"),
    ),
    Mutant(
        "a-library-for-the-old-machine",
        "if target is not None and (there := given_or_native(target)) != self.network.target:",
        "if target is not None and (there := given_or_native(target)) == self.network.target:",
        ("tests/backends/cpu/export/test_export.py::test_for_another_target_it_is_compiled_anew",),
    ),
    Mutant(
        "products-rounded-twice-in-functions",
        "%result = fptrunc {long} %sum to {short}",
        "%early = fptrunc {long} %product to {short}\n  %back = fpext {short} %early to {long}\n"
        "  %twice = fadd {long} %back, %c.wide\n  %result = fptrunc {long} %twice to {short}",
        ("tests/backends/cpu/test_fused_ir.py::test_functions_are_as_exact",),
    ),
    Mutant(
        "constants-are-read-from-memory-for-every-slice",
        "<= target.l3_bytes or cut.constants_bytes(workload) > target.l3_bytes",
        "<= target.l3_bytes",
        ("tests/space/test_transforms.py::test_what_no_cache_holds_is_not_read_again_and_again",),
    ),
    Mutant(
        "a-slice-is-one-row-of-a-tile-of-two",
        'self.decisions[f"{last.name}.{NestLoop(cut.axis.name, 1)}"] = rows',
        'self.decisions[f"{last.name}.{NestLoop(cut.axis.name, 1)}"] = 1',
        ("tests/backends/cpu/test_default_tile.py::test_a_slice_has_as_many_rows_as_the_tile",),
    ),
    Mutant(
        "few-rows-stay-few",
        "return {axis.name: size} if size > 1 else {}",
        "return {}",
        ("tests/backends/cpu/test_default_tile.py::test_few_rows_are_joined_by_those_of_another_axis_where_loads_take_time",),
    ),
    Mutant(
        "the-other-machine-gets-all-bits",
        "            weights=weights,\n            threads=threads,",
        "            threads=threads,",
        ("tests/backends/cpu/export/test_export.py::test_weights_in_fewer_bits_are_so_on_the_other_machine_too",),
    ),
    Mutant(
        "times-of-an-emulator-are-kept",
        "if database is not None and emulator():",
        "if False:",
        ("tests/targets/test_emulator.py::test_times_under_an_emulator_are_not_stored",),
    ),
    Mutant(
        "every-core-has-the-same-rates",
        "m = machine or rates_of(target)",
        "m = machine or Machine()",
        (PRIOR + "test_rates_are_the_targets",),
    ),
)

_SEARCH = (
    Mutant(
        "halide-blesses-every-structure",
        "penalty += self.settings.unblessed",
        "penalty += 0",
        ("tests/baselines/test_other_policies.py::test_a_structure_that_no_good_schedule_had_before_is_penalised",),
    ),
    Mutant(
        "an-ablation-keeps-the-prior",
        "prior if self.prior else np.zeros_like(prior)",
        "prior",
        (ABLATIONS + "test_without_the_prior_scores_are_random_and_then_the_trees_own",),
    ),
    Mutant(
        "an-ablation-keeps-its-descent",
        "if not self.settings.descent:",
        "if not self.settings.known:",
        (ABLATIONS + "test_without_descent_nothing_is_near_the_best",),
    ),
    Mutant(
        "an-ablation-hears-of-other-workloads",
        "if self.settings.known and self.settings.hints:",
        "if self.settings.known:",
        (ABLATIONS + "test_without_transfer_nothing_of_other_workloads_is_tried",),
    ),
    Mutant(
        "no-evolution",
        "for _ in range(s.generations):",
        "for _ in range(0):",
        (IDEAS + "test_evolution_beats_sampling_for_the_same_number_of_scores",),
    ),
    Mutant(
        "the-worse-half-breeds",
        "kept = p.matrix[mine > bound]",
        "kept = p.matrix[mine < bound]",
        (
            IDEAS + "test_children_have_parents_of_the_better_half",
            IDEAS + "test_evolution_beats_sampling_for_the_same_number_of_scores",
        ),
    ),
    Mutant(
        "one-parent-twice",
        "children = offspring(plan, a, b, self.rng, change)",
        "children = offspring(plan, a, a, self.rng, change)",
        (IDEAS + "test_children_have_parents_of_the_better_half",),
    ),
    Mutant(
        "measured-rows-do-not-breed",
        "measured = [row for plan, row in best if plan == p.plan]",
        "measured: list[Array] = []",
        (IDEAS + "test_the_best_measured_rows_breed",),
    ),
    Mutant(
        "no-coordinate-descent",
        "near.append(Population(plan, _neighbours(self.space.plans[plan], row)))",
        "near += sample(self.space, 64, self.rng)",
        (IDEAS + "test_finish_changes_one_hole_of_the_best", IDEAS + "test_finish_goes_downhill"),
    ),
    Mutant(
        "neighbours-differ-in-many-holes",
        "new = row.copy()\n                new[n] = other",
        "new = np.where(row == value, other, row)",
        (IDEAS + "test_neighbours_differ_in_one_hole_and_most_holes_have_some",),
    ),
    Mutant(
        "the-last-measured-count-as-best",
        "good = sorted((t.seconds, key) for key, t in self.told.items() if t.seconds is not None)",
        "good = [(t.seconds, key) for key, t in self.told.items() if t.seconds is not None][::-1]",
        (IDEAS + "test_finish_changes_one_hole_of_the_best",),
    ),
    Mutant(
        "nothing-at-random",
        "random = count if s.random >= 1 else round(count * s.random) if self.told else 0",
        "random = count if s.random >= 1 else 0",
        (IDEAS + "test_some_are_drawn_at_random",),
    ),
    Mutant(
        "programs-are-asked-for-twice",
        "new = key not in self._keys\n",
        "new = True\n",
        (POLICY + "test_no_program_is_asked_for_twice_by_any_row",),
    ),
    Mutant(
        "measured-ones-are-asked-for-again",
        "self._take(*place)\n                seconds",
        "seconds",
        (POLICY + "test_history_is_never_asked_for_again",),
    ),
    Mutant(
        "hints-are-passed-over",
        "carried += len(rows)\n                found += rows",
        "carried += len(rows)",
        (POLICY + "test_hints_are_carried_over_and_asked_for_first",),
    ),
    Mutant(
        "the-worst-are-picked",
        "order = np.lexsort((row, plan, -np.concatenate(scores)))",
        "order = np.lexsort((row, plan, np.concatenate(scores)))",
        (PICKING + "test_the_best_come_first", IDEAS + "test_what_the_model_likes_is_measured"),
    ),
    Mutant(
        "all-picks-of-one-structure",
        "most = max(1, int(np.ceil(per_structure * count)))",
        "most = count",
        (PICKING + "test_not_too_many_of_one_structure",),
    ),
    Mutant(
        "picks-lie-close-together",
        "if np.abs(np.array(others) - here).sum(axis=1).min() < apart:",
        "if np.abs(np.array(others) - here).sum(axis=1).min() < 0:",
        (PICKING + "test_rows_that_hardly_differ_wait_until_the_others_are_taken",),
    ),
    Mutant(
        "the-past-of-a-task-does-not-count",
        "return s.alpha * self._past(task) + (1 - s.alpha) * max(guess, t.bound - g)",
        "return (1 - s.alpha) * max(guess, t.bound - g)",
        (SCHEDULER + "test_of_two_that_stand_alike_the_one_that_gained_goes_on",),
    ),
    Mutant(
        "the-task-that-gains-least",
        "steepest = min(gradients[n] for n in live)",
        "steepest = max(gradients[n] for n in live)",
        (SCHEDULER + "test_the_task_that_gains_gets_most_and_each_gets_some",),
    ),
    Mutant(
        "no-task-at-random",
        "if self._rng.random() < self.schedule.epsilon:",
        "if self._rng.random() < 0:",
        (SCHEDULER + "test_no_task_that_can_gain_starves",),
    ),
    Mutant(
        "similar-tasks-do-not-count",
        "return max((t.facts.flops / t.best for t in others if t.best), default=0.0)",
        "return 0.0",
        (SCHEDULER + "test_far_behind_a_similar_task",),
    ),
    Mutant(
        "no-warm-up",
        "if cold:\n            return",
        "if len(cold) > 1000:\n            return",
        (SCHEDULER + "test_the_warm_up_goes_by_share_and_skips_what_does_not_matter",),
    ),
    Mutant(
        "targets-are-passed",
        "return math.fsum(max(pair) for pair in zip(latencies, self.seconds))",
        "return math.fsum(latencies)",
        (SCHEDULER + "test_slopes",),
    ),
    Mutant(
        "a-mean-that-is-not-geometric",
        "return -math.exp(math.fsum(math.log(r / x) for r, x in zip(references, latencies)) / len(latencies))",
        "return -math.fsum(r / x for r, x in zip(references, latencies)) / len(latencies)",
        (SCHEDULER + "test_slopes",),
    ),
)

_FLEET = (
    Mutant(
        "what-a-dead-node-had-is-lost",
        "self._queues.put(self._unassigned(back), first=True)",
        "self._unassigned(back)",
        (DISPATCH + "test_what_a_dead_node_had_is_handed_out_first",),
    ),
    Mutant(
        "a-late-result-counts-as-well",
        "if judged.believed and item.number in answered and self._open.pop(item.number, None) is not None:",
        "if judged.believed and item.number in answered and self._open.pop(item.number, 0) is not None:",
        (DISPATCH + "test_a_result_counts_once_whoever_brings_it",),
    ),
    Mutant(
        "a-slow-node-is-like-its-peers",
        "return 1 / self.rules.unlike <= ratio <= self.rules.unlike",
        "return True",
        (
            DISPATCH + "test_times_that_come_with_a_strange_calibration_are_not_believed",
            SIMULATED + "test_one_killed_one_hung_one_slow",
        ),
    ),
    Mutant(
        "times-of-a-doubtful-batch-count",
        "believed = alike and member.state is State.READY",
        "believed = member.state is State.READY",
        (SIMULATED + "test_a_node_that_becomes_slow_is_set_apart_before_any_of_its_times_counts",),
    ),
    Mutant(
        "silence-is-no-sign",
        "if now - member.heard > self.rules.silence:",
        "if now - member.heard > 1e9:",
        (DISPATCH + "test_silence_means_that_it_hangs",),
    ),
    Mutant(
        "a-late-lease-has-no-copy",
        "self._queues.put([item for item in late.items if item.number in self._open], first=True)",
        "pass",
        (DISPATCH + "test_a_result_counts_once_whoever_brings_it",),
    ),
    Mutant(
        "an-emulated-time-is-stored",
        "if self.file is not None and trials and not self.emulated:",
        "if self.file is not None and trials:",
        (ELSEWHERE + "test_emulated_times_order_a_run_and_are_never_stored",),
    ),
    Mutant(
        "a-record-file-takes-emulated-times",
        "if t.emulated and self.path != _IN_MEMORY:",
        "if False:",
        (ELSEWHERE + "test_a_record_file_refuses_what_is_emulated",),
    ),
    Mutant(
        "an-emulator-is-not-heard",
        "emulated = bool(self._facts.get(node, _UNKNOWN).emulated)",
        "emulated = False",
        (ELSEWHERE + "test_emulated_times_order_a_run_and_are_never_stored",),
    ),
    Mutant(
        "any-number-of-a-node-is-a-time",
        "type(value) not in (int, float) or not low <= value <= high:",
        "type(value) not in (int, float):",
        (
            HOSTILE + "test_a_malformed_result_is_a_failed_trial_with_a_cause",
            HOSTILE + "test_any_garbled_answer_is_read_or_malformed",
        ),
    ),
    Mutant(
        "a-node-that-leaves-results-out-is-asked-again",
        "            if lacking:",
        "            if False:",
        (HOSTILE + "test_a_node_that_leaves_results_out_is_given_up",),
    ),
    Mutant(
        "a-command-may-print-without-end",
        """            if len(self._before) > _MOST_BEFORE:
                raise InternalError(""",
        """            if False:
                raise InternalError(""",
        (HOSTILE + "test_a_command_that_prints_without_end_is_no_node",),
    ),
    Mutant(
        "a-node-imports-what-a-message-names",
        "    if place not in allowed | known_modules():",
        "    if False:",
        (
            STATION + "test_a_module_that_a_message_names_is_not_imported",
            STATION + "test_a_setup_names_no_module_either",
            STATION + "test_a_tuner_is_told_why_its_plug_in_is_refused",
        ),
    ),
    Mutant(
        "another-user-s-folder-is-read",
        "found.st_uid == _user()",
        "True",
        (PUBLISHED + "test_a_folder_of_another_user",),
    ),
    Mutant(
        "a-link-in-the-folder-s-place-is-followed",
        "found = place.lstat()",
        "found = place.stat()",
        (PUBLISHED + "test_a_link_in_its_place",),
    ),
)

_MEASURING = (
    Mutant(
        "every-answer-is-right",
        "found = difference(self.workload, name, got, self.outputs[name], self.slack)",
        "found = None",
        (BENCH + "test_the_quick_check_agrees_with_the_thorough_one",),
    ),
    Mutant(
        "any-difference-is-rounding",
        "return _SAFETY * sum(_rounding(workload, stage) for stage in ancestors)",
        "return 1.0",
        ("tests/lang/test_compare.py::test_rounding_is_accepted_and_a_missing_term_is_not",),
    ),
    Mutant(
        "old-answers-are-left-in-place",
        "output.reshape(-1).view(np.uint8).fill(POISON)\n        self._keep[0].poison()",
        "pass\n        self._keep[0].poison()",
        (BENCH + "test_what_was_there_before_is_no_answer",),
    ),
    Mutant(
        "scratch-memory-is-fresh",
        "self._memory.fill(POISON)",
        "pass",
        (BENCH + "test_scratch_memory_is_poisoned_before_the_check",),
    ),
    Mutant(
        "a-changed-answer-is-not-seen",
        "value = zlib.crc32(output.reshape(-1).view(np.uint8).data, value)",
        "value = 0",
        (BENCH + "test_an_answer_that_changes_is_checked_again",),
    ),
    Mutant(
        "a-wrong-answer-is-a-time",
        "return self._fail(m, Status.WRONG_ANSWER, problem)",
        "pass",
        ("tests/measure/test_measurer.py::test_a_fault_is_a_result_and_the_others_do_not_notice",),
    ),
    Mutant(
        "interference-counts",
        "return min(times), float((p90 - p10) / median) if median > 0 else 0.0",
        "return float(np.mean(times)), float((p90 - p10) / median) if median > 0 else 0.0",
        (TIMING + "test_interference_does_not_count",),
    ),
    Mutant(
        "losers-are-timed-in-full",
        "if plan.cut_above is not None and len(times) == 2 and min(times) > plan.cut_above:",
        "if plan.cut_above is not None and len(times) < 0:",
        (TIMING + "test_what_clearly_loses_is_cut_short",),
    ),
    Mutant(
        "spoilt-times-count",
        "again = spoilt and self._quiet()",
        "again = False",
        ("tests/measure/test_retake.py::test_what_others_have_spoilt_is_timed_again_when_they_are_done",),
    ),
    Mutant(
        "a-worker-does-not-wait-for-its-watch",
        "watch.join()  # it tidies up, and ends the process",
        "pass",
        ("tests/measure/test_worker.py::test_the_folder_of_a_parent_that_takes_its_time_to_die_is_removed",),
    ),
)

_RECORDS = (
    Mutant(
        "records-are-found-under-their-own-names-alone",
        'self.sql, self.values = "w.canonical = ?", [workload.canonical_key]',
        'self.sql, self.values = "w.key = ?", [workload.key]',
        (NAMES + "test_all_questions_are_answered_in_the_names_of_who_asks",),
    ),
    Mutant(
        "a-computation-has-records-under-each-name",
        "records = self._in_first_names(records)",
        "records = list(records)",
        (NAMES + "test_a_computation_is_stored_under_the_names_of_the_first",),
    ),
    Mutant(
        "timings-cut-short-count",
        "AS age FROM mine WHERE NOT at_least",
        "AS age FROM mine",
        (RECORDS + "test_a_timing_cut_short_is_never_best",),
    ),
    Mutant(
        "wrong-answers-are-forgiven",
        "r.status IN ('wrong answer', 'crashed')",
        "r.status IN ('crashed')",
        (RECORDS + "test_a_candidate_that_was_ever_wrong_is_not_used",),
    ),
    Mutant(
        "the-first-timing-counts",
        "ORDER BY created DESC, id DESC) AS age",
        "ORDER BY created, id) AS age",
        (RECORDS + "test_the_last_full_timing_of_a_candidate_counts",),
    ),
)

_TUNING = (
    Mutant(
        "a-full-disk-loses-the-best",
        "if self._unsaved or self.emulated or self.file is None:\n            found |=",
        "if self.file is None:\n            found |=",
        ("tests/tuning/test_journal.py::test_a_disk_that_is_full_for_a_while",),
    ),
    Mutant(
        "general-lessons-of-a-few-trials",
        "if len(trials) >= teaching.least:",
        "if trials:",
        ("tests/tuning/test_experience.py::test_little_is_not_enough",),
    ),
    Mutant(
        "one-formulation-only",
        "if self._waiting:\n            return self._begin()",
        "if len(self._waiting) > 1000:\n            return self._begin()",
        ("tests/tuning/test_formulated.py::test_all_get_a_first_look_and_the_leader_the_rest",),
    ),
    Mutant(
        "one-final-is-enough",
        "_MOST_FINALS = 2",
        "_MOST_FINALS = 1",
        ("tests/tuning/test_finals.py::test_a_time_that_is_too_good_to_be_true_does_not_stay",),
    ),
    Mutant(
        "one-condition-is-enough-to-win",
        "all(c in found and found[c].ahead for c in judged)",
        "any(c in found and found[c].ahead for c in judged)",
        (FINALS + "test_who_loses_after_a_pause_stands_behind_the_default_whatever_its_seconds",),
    ),
    Mutant(
        "wins-after-a-pause-make-up-for-none-back-to-back",
        "if found[judged[0]].sure and all(",
        "if all(",
        (VERDICT + "test_no_win_elsewhere_makes_up_for_what_is_not_there_back_to_back",),
    ),
    Mutant(
        "what-a-kernel-takes-alone-decides",
        "return tuple(c for c in conditions if c is not Condition.ALONE) or (Condition.ALONE,)",
        "return tuple(conditions)",
        (VERDICT + "test_a_kernel_that_is_faster_alone_has_not_won",),
    ),
    Mutant(
        "finalists-are-not-called-as-users-call",
        "elif condition is Condition.ALONE:",
        "elif condition:",
        ("tests/measure/test_calls.py::test_conditions_of_callers_are_calls_of_the_bound_executable",),
    ),
    Mutant(
        "a-policys-own-best-may-be-anybodys",
        "return [record for record in every if record.key in self._asked][:k]",
        "return every[:k]",
        ("tests/tuning/test_answer.py::test_records_of_others_are_not_the_policys_own",),
    ),
    Mutant(
        "the-result-is-compiled-after-the-time-is-up",
        "return None if self._end is None else self._end - self._kept - self._now()",
        "return None if self._end is None else self._end - self._now()",
        ("tests/tuning/test_budget.py::test_a_clock_keeps_time_for_what_comes_after_the_run",),
    ),
    Mutant(
        "the-luckiest-of-several-wins",
        "_SURELY = 1.5",
        "_SURELY = 1.0",
        (VERDICT + "test_a_win_is_sure_by_three_standard_errors",),
    ),
    Mutant(
        "whoever-is-disturbed-less-wins",
        "_SURELY * self.noise) and self.best < 1",
        "_SURELY * self.noise)",
        (VERDICT + "test_who_is_only_disturbed_less_has_not_won",),
    ),
    Mutant(
        "equal-programs-race-on",
        "out = dropped or margins[main].hopeless or ",
        "out = dropped or ",
        (RACE + "test_who_is_equal_or_behind_back_to_back_is_out_at_once",),
    ),
    Mutant(
        "lost-by-a-single-call",
        "margins[c].lost and len(own[c]) >= LEAST_ELSEWHERE",
        "margins[c].lost",
        (RACE + "test_equal_programs_hardly_ever_win_and_better_ones_mostly_do",),
    ),
    Mutant(
        "back-in-a-race-after-dropping-out",
        "dropped = len(own) < len((rounds[holder] or {})[main])",
        "dropped = False",
        (RACE + "test_who_has_dropped_out_stays_out",),
    ),
    Mutant(
        "no-verdict-when-time-is-up",
        "if not self.ctrl_c.came or not self.options.fallback:",
        "if not self.stopped() or not self.options.fallback:",
        (RUN + "test_where_no_time_is_left_for_a_final_the_default_schedule_stays",),
    ),
    Mutant(
        "a-lead-within-the-spread-of-two-times",
        "max(LEAST_GAIN, math.hypot(first.trial.spread, own.trial.spread))",
        "LEAST_GAIN",
        (FINALS + "test_where_the_search_is_trusted_the_default_stays_unless_another_is_ahead_by_what_a_win_is_worth",),
    ),
    Mutant(
        "a-search-decides-without-a-final",
        "if trust_search and least < (1 - max(",
        "if least < (1 - max(",
        (FINALS + "test_without_a_final_the_default_stays",),
    ),
    Mutant(
        "no-time-reserved-for-a-final",
        "self.clock.reserve(self.opened.get(task).seconds_of_final())",
        "pass",
        (RUN + "test_slow_programs_have_more_time_for_their_final",),
    ),
    Mutant(
        "times-alone-against-times-in-turns",
        "slower = held.holder_seconds / known if held.holder_seconds and known else 1.0",
        "slower = 1.0",
        (FINALS + "test_no_second_final_where_all_are_slower_in_turns_than_alone",),
    ),
    Mutant(
        "turns-in-the-same-order",
        "self._random.shuffle(order)",
        "pass",
        ("tests/measure/test_contest.py::test_all_have_their_turn_in_every_round_in_changing_order",),
    ),
    Mutant(
        "a-referee-with-one-order",
        "draw.shuffle(order)",
        "pass",
        (
            REFEREE + "test_the_order_is_drawn_anew_in_every_round",
            REFEREE + "test_the_order_is_that_of_the_seed",
            REFEREE + "test_the_peak_has_a_place_in_the_order",
        ),
    ),
    Mutant(
        "disturbed-slots-kept",
        "if not slot.disturbed or self._left <= 0:",
        "if True:",
        (
            REFEREE + "test_a_disturbed_slot_is_taken_again_and_its_samples_do_not_count",
            REFEREE + "test_everyone_has_as_many_slots_however_disturbed",
        ),
    ),
    Mutant(
        "retakes-without-end",
        "self._left -= self._machine.clock() - begun",
        "pass",
        (REFEREE + "test_all_retakes_together_take_no_longer_than_the_contest",),
    ),
    Mutant(
        "slots-beside-spinning-threads",
        "still = 0 if others_running() else still + 1",
        "still += 1",
        (REFEREE + "test_a_slot_begins_when_all_is_still",),
    ),
)

_UNMEASURED = (
    Mutant(
        "opinions-of-one-lesson",
        "samples if n == 0 else samples.some(self._part(samples, n))",
        "samples",
        (ENSEMBLE + "test_the_first_learns_from_all_and_each_of_the_others_leaves_some_workloads_out",),
    ),
    Mutant(
        "no-doubt",
        "ahead.mean(axis=0) - self.sure.doubt * ahead.std(axis=0), -np.inf)",
        "ahead.mean(axis=0), -np.inf)",
        (ENSEMBLE + "test_what_the_members_disagree_about_is_no_gain", PREDICTED + "test_doubt_is_for_the_default_schedule"),
    ),
    Mutant(
        "a-model-that-does-not-ask-the-prior",
        "np.where(base >= base[than], ",
        "np.where(base <= np.inf, ",
        (ENSEMBLE + "test_what_the_prior_takes_for_slower_is_no_gain",),
    ),
    Mutant(
        "no-margin",
        "if first and self.gains[first] >= margin else None",
        "if first else None",
        (
            PREDICTED + "test_the_one_that_the_model_likes_most_is_taken_if_it_is_ahead_by_the_margin",
            PREDICTED + "test_compile_takes_what_the_model_is_sure_of_if_it_is_asked",
        ),
    ),
    Mutant(
        "opinions-of-other-candidates",
        "opinions = model.opinions(rows, prior)[:, at]",
        "opinions = model.opinions(rows, prior)[:, at[::-1]]",
        (PREDICTED + "test_the_one_that_the_model_likes_most_is_taken_if_it_is_ahead_by_the_margin",),
    ),
    Mutant(
        "a-model-that-asks-nobody-for-other-sizes",
        "seed=_SEED, hints=similar, model=model.beginning()",
        "seed=_SEED, hints=(), model=model.beginning()",
        (PREDICTED + "test_records_of_other_sizes_are_among_the_candidates",),
    ),
    Mutant(
        "only-networks-take-records-of-other-sizes",
        "guesses = {} if found else _guesses({workload: options}, store, target, timing, effort)",
        "guesses = {} if found else _guesses({workload: options}, None, target, timing, effort)",
        (PREDICTED + "test_a_workload_alone_takes_a_record_of_another_size_too",),
    ),
    Mutant(
        "a-search-that-never-ends-early",
        "return near is not None and t.best is not None and t.best <= (1 + near) * t.bound",
        "return False",
        (RUN + "test_a_search_ends_near_what_the_machine_allows",),
    ),
    Mutant(
        "padding-counts-as-work",
        "share *= float(inside.mean())",
        "share *= 1.0",
        ("tests/tuning/test_needed.py::test_taps_on_padding_do_not_count",),
    ),
    Mutant(
        "other-formulations-need-as-much",
        "*(_largest(f.workload) for f in options[1:]), math.inf)",
        "math.inf)",
        ("tests/tuning/test_needed.py::test_other_formulations_need_fewer",),
    ),
    Mutant(
        "a-final-that-goes-on-when-all-is-clear",
        "return rounds >= MOST_ELSEWHERE or (rounds >= LEAST_ELSEWHERE and found[condition].likely)",
        "return rounds >= MOST_ELSEWHERE",
        (RACE + "test_a_clear_win_takes_the_least_rounds_everywhere",),
    ),
    Mutant(
        "a-population-for-one-candidate",
        "if count - len(chosen) <= self.settings.few:",
        "if False:",
        (POLICY + "test_no_population_evolves_for_the_first_few",),
    ),
    Mutant(
        "a-bound-that-was-beaten-is-believed",
        "standing.best < (1 - _NOISE) * standing.bound",
        "False",
        (RUN + "test_a_search_goes_on_otherwise",),
    ),
)

_REPORT = (
    Mutant(
        "a-share-above-the-roof-without-a-reason",
        """    if share <= 1:
        return Reached(share)
""",
        """    if share <= 9:
        return Reached(share)
""",
        ("tests/report/test_collect.py::test_a_share_of_the_roof_above_1_has_a_reason",),
    ),
    Mutant(
        "pauses-count-as-tuning",
        "(gap if gap <= _PAUSE else 0.0)",
        "gap",
        ("tests/report/test_curves.py::test_pauses_do_not_count",),
    ),
    Mutant(
        "a-network-without-some-of-its-tasks",
        "if len(best) == len(timed):",
        "if best:",
        ("tests/report/test_curves.py::test_the_network_has_a_time_once_every_task_has",),
    ),
    Mutant(
        "shares-without-weights",
        "share=t.weight * t.seconds / whole",
        "share=t.seconds / whole",
        ("tests/report/test_collect.py::test_a_model_names_and_weighs_its_tasks",),
    ),
    Mutant(
        "a-strangers-text-ends-the-script",
        'return text.replace("<", "\\\\u003c")',
        "return text",
        ("tests/report/test_render.py::test_a_strangers_text_is_no_markup",),
    ),
)

_BYTES = (
    Mutant(
        "rows-that-were-moved-stay-moved",
        'self.arith.binary("sub", v, totals[self.sums[k]]) if k in self.sums else v',
        "v",
        (INSTRUCTIONS + "test_kernels_of_other_machines_are_right_by_meaning",),
    ),
    Mutant(
        "signed-bytes-are-unsigned",
        'shifted("lshr" if name == "u8" else "ashr", text, bits - self.bits)',
        'shifted("lshr", text, bits - self.bits)',
        (INSTRUCTIONS + "test_kernels_of_other_machines_are_right_by_meaning",),
    ),
    Mutant(
        "an-instruction-that-means-something-else",
        "'zext' if t == 'u8' else 'sext'",
        "'sext'",
        (INSTRUCTIONS + "test_the_meaning_is_a_sum_of_products",),
    ),
    Mutant(
        "what-is-left-of-a-row-lies-in-one-place",
        'wide = self.f.op(f"shl {wide}, {self.bits * start}", self.lane) if start else wide',
        "wide = wide",
        (BYTES + "test_random_programs_on_bytes_are_numpys",),
    ),
    Mutant(
        "any-weight-is-small",
        "return e.dtype if small_load(e) is None else SMALL",
        'return SMALL if e.dtype == "i8" else e.dtype',
        (INSTRUCTIONS + "test_what_may_saturate_is_not_used",),
    ),
    Mutant(
        "what-is-not-small-is-packed-as-it-is",
        "array = kept_if_small(array) if packed.small else array",
        "array = array",
        (INSTRUCTIONS + "test_kernels_with_pairs_are_right_by_meaning",),
    ),
    Mutant(
        "a-weight-of-64-is-small",
        "LOW, HIGH = -64, 63",
        "LOW, HIGH = -64, 65",
        ("tests/lang/test_small.py::test_two_products_of_small_bytes_fit_in_16_bits",),
    ),
    Mutant(
        "padding-in-front-of-pairs-is-zero",
        "return Const(e.value, self.TYPE)",
        "return Const(0, self.TYPE)",
        ("tests/space/test_rewrite.py::test_widen",),
    ),
    Mutant(
        "products-of-two-steps-are-added-first",
        'self.arith.binary("add", self._as_it_is(old), self.call(pair, [a, b]))',
        'self.arith.binary("add", old, self.call(pair, [a, b]))',
        (INSTRUCTIONS + "test_pairs_are_stored_so_that_loops_only_multiply_and_add",),
    ),
    Mutant(
        "a-lane-has-its-second-factor-where-bytes-have-theirs",
        'f.op(f"shl {wide}, splat ({lane} {bits * n})", lane, lanes.width) if n else wide',
        'f.op(f"shl {wide}, splat ({lane} {8 * n})", lane, lanes.width) if n else wide',
        (BYTES + "test_copies_of_what_is_no_constant_have_pairs_side_by_side",),
    ),
    Mutant(
        "the-bytes-of-a-lane-lie-apart",
        "last.index(v.name) + 1 if v.name in last else 0",
        "v.name in last[:1]",
        ("tests/program/test_grouping.py::test_the_bytes_of_a_lane_are_packed_side_by_side",),
    ),
    Mutant(
        "a-group-as-short-as-what-is-left",
        "counts = [*split(ceil_div(length, steps), sizes[:-1]), steps]",
        "counts = split(length, sizes)",
        ("tests/program/test_grouping.py::test_a_group_has_four_steps_however_few_there_are",),
    ),
    Mutant(
        "padding-is-a-zero-byte",
        "fill=fill or 0, **options)",
        "fill=0, **options)",
        (INTEGERS + "test_convolutions_with_padding",),
    ),
    Mutant(
        "zero-points-meet-unnoticed",
        "if left_zero is not None and right_zero is not None:",
        "if False:",
        (INTEGERS + "test_zero_points_are_taken_off",),
    ),
    Mutant(
        "any-bias-is-whole",
        "if not near.all() or",
        "if",
        (INTEGERS + "test_a_bias_that_is_no_whole_number_of_products_is_added_in_f32",),
    ),
    Mutant(
        "a-clip-without-an-upper-end",
        '(self.high, ends.max, "minimum")',
        '(np.inf, ends.max, "minimum")',
        (INTEGERS + "test_a_clip_is_a_limit_of_bytes",),
    ),
    Mutant(
        "other-scales-are-the-same",
        "if known.flat[0] != wanted.flat[0]:",
        "if False:",
        (INTEGERS + "test_bytes_that_are_only_compared_stay_bytes",),
    ),
    Mutant(
        "a-table-of-two-bytes",
        "len(found.sources) != 1:",
        "not found.sources:",
        (INTEGERS + "test_what_is_made_of_two_bytes_is_no_table",),
    ),
    Mutant(
        "real-numbers-between-kernels",
        "while (last := self._root(group)) != group and self._widens(last) and not self.leaves[last]:",
        "while False and (last := group):",
        (INTEGERS + "test_a_network_stays_in_bytes",),
    ),
    Mutant(
        "scales-are-in-the-definitions",
        "any(part[0] in _QUANTISED for part in nodes)",
        "False",
        (INTEGERS + "test_layers_with_other_scales_are_one_task",),
    ),
    Mutant(
        "scales-along-the-depth-are-one",
        'builder.constant(rows[0].copy(), "scale") if (rows == rows[0]).all() else None',
        'builder.constant(rows[0].copy(), "scale")',
        (INTEGERS + "test_scales_along_the_depth_are_left_to_floats",),
    ),
)

#: types of 16 bits, and weights in fewer bits
_NARROW = (
    Mutant(
        "bf16-ties-go-up",
        'rounded = op("add", op("add", pattern, constant(0x7FFF)), last)',
        'rounded = op("add", pattern, constant(0x8000))',
        (BF16 + "test_rounded_once_to_the_nearest_even_one",),
    ),
    Mutant(
        "bf16-nan-becomes-infinity",
        'chosen = self.select(nothing, op("or", pattern, constant(0x400000)), rounded)',
        "chosen = self.select(nothing, pattern, rounded)",
        (BF16 + "test_a_nan_stays_one_whatever_its_bits",),
    ),
    Mutant(
        "what-lies-behind-the-last-bf16-counts",
        "return self.without_rest(found, count) if self.floats and count < self.steps else found",
        "return found",
        (BF16_PRODUCTS + "test_what_lies_behind_a_group_does_not_count",),
    ),
    Mutant(
        "squares-of-groups-from-one-row",
        "pointers = [body.pointer(read.tensor, start, first + at * steps + n * apart) for n in range(lanes.active)]",
        "pointers = [body.pointer(read.tensor, start, first + at * steps) for n in range(lanes.active)]",
        (BF16_PRODUCTS + "test_copies_in_squares_are_right",),
    ),
    Mutant(
        "factors-of-bf16-are-exchanged-on-the-way",
        'word, by = ("bitand", -(1 << 16)) if n else ("shl", 16)',
        'word, by = ("shl", 16) if n else ("shl", 16)',
        (BF16_PRODUCTS + "test_random_programs_on_bf16_are_numpys",),
    ),
    Mutant(
        "products-of-bf16-in-the-other-order",
        "for k in (n + 1, n):",
        "for k in (n, n + 1):",
        (BF16_DOTS + "test_the_meaning_is_what_the_manual_says",),
    ),
    Mutant(
        "bfdot-rounds-to-the-nearest",
        "self.arith.rounded_to_odd(exact)))",
        'self.arith.cast("f32", exact)))',
        (BF16_DOTS + "test_the_meaning_is_what_the_manual_says",),
    ),
    Mutant(
        "small-numbers-of-bf16-are-kept",
        "total = plain.flushed(plain.arith.fma(a[k], b[k], total))",
        "total = plain.arith.fma(a[k], b[k], total)",
        (BF16_DOTS + "test_the_meaning_is_what_the_manual_says",),
    ),
    Mutant(
        "f32-times-bf16-is-a-product-of-bf16",
        "and e.dtype == stage.dtype and e.a.dtype in kinds]",
        "and e.dtype == stage.dtype]",
        ("tests/program/test_grouping.py::test_other_sums_are_not",),
    ),
    Mutant(
        "rows-of-a-pair-are-exchanged",
        'picks = ", ".join(f"i32 {2 * n + row}" for n in range(width // 2))',
        'picks = ", ".join(f"i32 {2 * n + 1 - row}" for n in range(width // 2))',
        (INSTRUCTIONS + "test_a_row_without_a_partner_is_multiplied_otherwise",),
    ),
    Mutant(
        "columns-of-the-second-register-are-the-first",
        "self.arith.piece(columns, n * half, half)",
        "self.arith.piece(columns, 0, half)",
        (INSTRUCTIONS + "test_a_row_without_a_partner_is_multiplied_otherwise",),
    ),
    Mutant(
        "the-second-half-of-a-lane-is-the-first",
        """wide = self.f.op(f"lshr {wide}, {const(LANE_BITS, 'i64', width).text}", "i64", width) if n else wide""",
        "wide = wide",
        (INSTRUCTIONS + "test_a_row_without_a_partner_is_multiplied_otherwise",),
    ),
    Mutant(
        "a-matrix-instruction-for-one-row",
        "if found is not None and rows and axis.extent > steps",
        "if found is not None and axis.extent > steps",
        (INSTRUCTIONS + "test_two_rows_by_two_columns_where_there_are_two_rows",),
    ),
    Mutant(
        "bytes-as-pairs-cost-nothing",
        "- (_stored_as_pairs(graph) if pairs else 0)",
        "- 0",
        (FUSION + "test_bytes_that_are_stored_as_pairs_count",),
    ),
    Mutant(
        "f64-to-bf16-rounds-twice",
        'self.rounded_to_odd(a) if a.dtype == "f64" else self.cast("f32", a)',
        'self.cast("f32", a)',
        (BF16 + "test_f64_is_not_rounded_twice",),
    ),
    Mutant(
        "sums-of-16-bits-stay-in-16-bits",
        'if op in ("sum", "prod") and dtype(given.dtype).is_half:',
        'if op == "prod" and dtype(given.dtype).is_half:',
        (BF16 + "test_a_sum_is_made_in_f32_and_rounded_once",),
    ),
    Mutant(
        "products-in-a-sum-are-rounded",
        'return Binary("mul", _terms(e.a), _terms(e.b))',
        'return Cast("f32", e)',
        (BF16 + "test_products_in_a_sum_keep_all_their_digits",),
    ),
    Mutant(
        "large-u64-are-cut-off",
        "return Value(self.select(large, high, low).text",
        "return Value(self.select(large, low, low).text",
        (BF16 + "test_floats_that_fit_are_cut_off",),
    ),
    Mutant(
        "outputs-in-pieces-do-not-last",
        "last |= {name: len(uses) for name in lasting}",
        "last |= {name: last[name] for name in lasting}",
        (
            FUSION + "test_outputs_that_are_pieces_of_one_value_last_until_they_are_copied",
            MEMORY + "test_running_the_plan_never_destroys_a_value_that_is_still_needed",
        ),
    ),
    Mutant(
        "unpacked-operands-have-no-registers",
        "return self.tile.target.vector_registers - len(self.keys) - 2",
        "return self.tile.target.vector_registers",
        ("tests/backends/cpu/codegen/test_unpacking.py::test_one_load_and_one_more_instruction_for_each_multiply_add",),
    ),
    Mutant(
        "one-scale-for-all-channels",
        "largest = np.abs(array).max(axis=over, keepdims=True)",
        "largest = np.maximum(np.abs(array).max(axis=over, keepdims=True), np.abs(array).max())",
        (WEIGHTS + "test_int8_has_a_scale_for_each_output_channel",),
    ),
    Mutant(
        "f16-weights-become-infinite",
        "return narrow if bool(np.isfinite(narrow).all()) else None",
        "return narrow",
        (WEIGHTS + "test_a_weight_too_large_for_f16_stays_an_f32",),
    ),
    Mutant(
        "stored-weights-are-lost-on-the-way",
        "allowed.graph, allowed.partition, allowed.weights = self.graph, partition, self.weights",
        "allowed.graph, allowed.partition, allowed.weights = self.graph, partition, None",
        (WEIGHTS + "test_saved_pickled_and_copied_they_stay_so",),
    ),
    Mutant(
        "halves-of-a-byte-are-exchanged",
        'define.cast("u8", half * 4)',
        'define.cast("u8", 4 - half * 4)',
        ("tests/ops/test_blocks.py::test_block_matmul",),
    ),
    Mutant(
        "zero-points-stay-where-they-were",
        "shifted = (zero.astype(np.int32) + moved).astype(packed.dtype)",
        "shifted = zero.astype(packed.dtype)",
        ("tests/frontends/test_onnx_contrib.py::test_blocks_go_into_their_product",),
    ),
    Mutant(
        "zero-points-of-the-next-column",
        "reshape(columns, -1)[:, :blocks]",
        "reshape(-1)[: columns * blocks].reshape(columns, blocks)",
        ("tests/frontends/test_onnx_contrib.py::test_matmul_n_bits",),
    ),
)

MUTANTS = (
    *_LANGUAGE,
    *_GRAPH,
    *_ONNX,
    *_SPACE,
    *_PROGRAM,
    *_CODE,
    *_GPU,
    *_RUNTIME,
    *_MACHINES,
    *_LEARNING,
    *_SEARCH,
    *_MEASURING,
    *_FLEET,
    *_RECORDS,
    *_TUNING,
    *_UNMEASURED,
    *_REPORT,
    *_BYTES,
    *_NARROW,
    Mutant(
        "a-name-is-part-of-the-key",
        "content = json.dumps(self._content(), sort_keys=True",
        "content = json.dumps(self.to_json(), sort_keys=True",
        ("tests/test_names.py::test_a_name_is_no_part_of_the_identity",),
    ),
    Mutant(
        "a-name-is-markup-in-a-notebook",
        "{_safe(cell.text)}</td>",
        "{cell.text}</td>",
        ("tests/show/test_html.py::test_cells_are_escaped_and_ordered_by_their_values",),
    ),
    Mutant(
        "a-short-line-without-the-time-left",
        "Part(self._left(), 0),",
        "Part(self._left(), 8),",
        ("tests/tuning/test_bar.py::test_what_a_network_s_line_says",),
    ),
    Mutant(
        "a-latency-before-every-task-is-measured",
        "first_look=bool(self.scheduler.cold()) or any(t.pending and not t.trials for t in self.scheduler.tasks),",
        "first_look=False,",
        ("tests/test_tune_network.py::test_latencies_count_all_tasks_from_the_start_and_never_rise",),
    ),
    Mutant(
        "our-linker-forgets-the-addend",
        "_GOTOFF64: target + addend - got,",
        "_GOTOFF64: target - got + 8,",
        ("tests/backends/cpu/test_elf.py::test_everything_is_found",),
    ),
    Mutant(
        "generated-code-can-be-written",
        "_protect(base, _up(table + 8 * len(symbols), mmap.PAGESIZE))",
        "_protect(base, 0)",
        ("tests/backends/cpu/test_elf.py::test_code_cannot_be_written",),
    ),
    Mutant(
        "512-bit-code-runs-where-the-system-does-not-save-its-registers",
        "return state & _AVX512_STATE == _AVX512_STATE",
        "return True",
        ("tests/runtime/test_serving.py::test_registers_that_the_system_does_not_save",),
    ),
    Mutant(
        "an-executable-s-own-threads-are-forgotten-by-the-long-call",
        "        pool = shared(self.network.threads)\n        frame = self._take_frame(pool)",
        "        pool = shared()\n        frame = self._take_frame(pool)",
        (THREADS + "test_the_same_result_on_any_number_of_threads",),
    ),
    Mutant(
        "an-executable-s-own-threads-are-forgotten-by-the-plain-call",
        '"addresses": pool.addresses(threads),',
        '"addresses": pool.addresses(None),',
        (THREADS + "test_plain_calls_find_the_pool_of_their_executable",),
    ),
    Mutant(
        "a-file-forgets-its-threads",
        "            threads=_threads(header),\n",
        "",
        (THREADS + "test_files_and_pickles_remember", THREADS + "test_models_and_open_dimensions"),
    ),
    Mutant(
        "records-of-other-numbers-of-threads-are-used",
        "return target.with_facts(cores=threads)",
        "return target",
        (THREADS + "test_records_of_other_numbers_are_not_mixed",),
    ),
    Mutant(
        "deep-copies-share-their-constants",
        "constants=tuple(_copied(array, memo) for array in self.network.constants)",
        "constants=self.network.constants",
        ("tests/runtime/test_pickle.py::test_copies",),
    ),
    Mutant(
        "nan-has-no-place-in-a-sort",
        "(a <= b) | (b != b)",
        "a <= b",
        ("tests/graph/test_operators_basic.py::test_top_k_has_nan_for_the_largest",),
    ),
    Mutant(
        "a-guard-of-rows-says-nothing-of-pixels",
        "not fact.terms.keys() <= form.terms.keys()",
        "fact.terms.keys() != form.terms.keys()",
        ("tests/lang/test_affine.py::test_the_range_of_a_padded_image_in_rows_is_exact",),
    ),
    Mutant(
        "a-fact-counts-against-its-sign",
        "if own * theirs < 0 or any(",
        "if any(",
        ("tests/lang/test_affine.py::test_ranges_under_random_conditions_hold_every_value",),
    ),
    Mutant(
        "a-bounded-reduction-takes-one-step-too-many",
        'whole = now if stride == 1 else self.f.op(f"udiv i64 {now.text}, {stride}", "i64")',
        "whole = self.f.op(f\"udiv i64 {self.f.op(f'add i64 {now.text}, {stride}', 'i64').text}, {stride}\", \"i64\")",
        (BOUNDED + "test_every_size_is_right_in_few_compilations", BOUNDED + "test_random_networks"),
    ),
    Mutant(
        "a-bounded-reduction-leaves-out-what-is-left-of-a-step",
        "return self.f.choose(some, lambda: once(whole, state, rest), None, state)",
        "return state",
        (BOUNDED + "test_every_size_is_right_in_few_compilations",),
    ),
    Mutant(
        "lanes-behind-what-a-call-has-are-reduced-too",
        "        self.lanes_there = now\n",
        "        self.lanes_there = None\n",
        (BOUNDED + "test_every_size_is_right_in_few_compilations",),
    ),
    Mutant(
        "a-bounded-loop-stops-a-tile-early",
        "return Remaining(self.there).trips(f, stride)",
        'return f.op(f"sdiv i64 {self.there.text}, {stride}", "i64")',
        (BOUNDED + "test_every_size_is_right_in_few_compilations",),
    ),
    Mutant(
        "the-last-row-of-several-open-dimensions-is-left-out",
        "    total[0] += 1\n    return tuple(total)",
        "    return tuple(total)",
        (BOUNDED + "test_what_is_there_of_an_axis_ends_behind_its_last_element", BOUNDED + "test_several_open_dimensions"),
    ),
    Mutant(
        "numbers-of-a-size-are-those-of-the-largest",
        "numbers = [np.array([number_value(number, sizes)]",
        "numbers = [np.array([number_value(number, self.largest)]",
        (BOUNDED + "test_every_size_is_right_in_few_compilations",),
    ),
    Mutant(
        "what-computes-with-an-open-size-is-bounded-on-near-samples",
        "if not found.computes:",
        "if found is not None:",
        (BOUNDED + "test_far_samples_find_what_near_ones_do_not",),
    ),
)
