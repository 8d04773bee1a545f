"""What a run says: where it stands, as data and as text, and what failed.

workload, network   where a run stands      reporter   who is told      failures   what failed, by cause
bar                 one line that fits a terminal
"""
