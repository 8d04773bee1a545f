"""Numbers with their units."""

from __future__ import annotations

from tensorsmith.show.units import flops, rate, size, span, time


def test_times_have_three_digits() -> None:
    assert [time(s) for s in (None, 0.0, 1.234e-8, 12.34e-6, 530e-6, 999.4e-6, 999.6e-6, 1.5e-3, 2.5, 999.9, 12345.6)] == [
        "-", "0 us", "0.0123 us", "12.3 us", "530 us", "999 us", "1 ms", "1.5 ms", "2.5 s", "1,000 s", "12,346 s",
    ]  # fmt: skip


def test_spans_are_short() -> None:
    assert [span(s) for s in (0.4, 59.4, 59.6, 260, 3599.6, 7260, 360_000)] == [
        "0s", "59s", "1m00s", "4m20s", "1h00m", "2h01m", "100h00m",
    ]  # fmt: skip


def test_sizes_and_rates() -> None:
    assert [size(n) for n in (0, 1023, 1024, 1 << 20, 1536 << 20)] == ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "1.5 GiB"]
    assert (flops(0), flops(512), flops(2.5e6), flops(1e9)) == ("0.00", "0.00051", "2.50", "1,000.00")
    assert (rate(2e6, 1e-3), rate(0, 1e-3), rate(1, None)) == ("2.0", "-", "-")
