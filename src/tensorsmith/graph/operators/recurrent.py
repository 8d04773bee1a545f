"""The cells of recurrent layers, one step each."""

from __future__ import annotations

from tensorsmith.graph.operators import Kind, operator
from tensorsmith.ops import recurrent

operator("rnn_cell", Kind.INJECTIVE)(recurrent.rnn_cell)
operator("lstm_cell", Kind.INJECTIVE)(recurrent.lstm_cell)
operator("gru_reset", Kind.INJECTIVE)(recurrent.gru_reset)
operator("gru_cell", Kind.INJECTIVE)(recurrent.gru_cell)
operator("gru_cell_linear", Kind.INJECTIVE)(recurrent.gru_cell_linear)
