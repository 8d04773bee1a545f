"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

ModelFile = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A model: MODEL.onnx, or FILE.py:FUNCTION, a function that gives a PyTorch module and its example inputs.",
    ),
]

ModelOrExecutable = Annotated[
    str, typer.Argument(metavar="FILE", help="A model (MODEL.onnx), or an executable that compile or tune wrote (model.tsm).")
]

Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME=SIZE",
        help="What the model leaves open: the shape of an input (x=1x3x224x224; of one dimension: x=128,) or the size of a "
        "symbolic dimension (batch=1). May be given several times.",
    ),
]

OpenShapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME=SIZE",
        help="What the model leaves open: the shape of an input (x=1x3x224x224; of one dimension: x=128,) or the size of a "
        "symbolic dimension (batch=1). It may stay open: batch=? takes any size, batch=1,8,32 any size and these at once. "
        "May be given several times.",
    ),
]

Outputs = Annotated[
    list[str] | None,
    typer.Option(
        "--outputs",
        metavar="NAME,...",
        help="Cut the model: compute these tensors, by their names in the ONNX file, instead of its outputs. May be given several "
        "times.",
        show_default="the model's own",
    ),
]

DrawSeed = Annotated[
    int | None,
    typer.Option(
        "--draw-seed",
        metavar="N",
        help="The seed of operators that draw random numbers in every call (RandomNormal, Bernoulli, ...).",
        show_default="such models are refused",
    ),
]

Records = Annotated[
    str | None,
    typer.Option(
        "--db", metavar="FILE", help="Record file of `tensorsmith tune`; tasks without a record get the default schedule."
    ),
]

TargetName = Annotated[
    str | None,
    typer.Option("--target", metavar="NAME", help="The machine to compile for, such as znver4 or neoverse-n1; else this one."),
]

Runner = Annotated[
    list[str] | None,
    typer.Option(
        "--runner",
        metavar="WHERE",
        help='Where programs are measured: local, a command that starts Python on another machine ("ssh pi@board"; may be given '
        "several times), ray, or ray://HOST:10001.",
        show_default="local",
    ),
]

Formulations = Annotated[
    str,
    typer.Option(
        metavar="WHICH",
        help="all, or direct: compute as it is written, without Winograd's convolutions, whose weights take more memory.",
    ),
]

Weights = Annotated[
    str | None,
    typer.Option(
        metavar="TYPE",
        help="Store weights in fewer bits: bf16, f16 or int8. Prints what that changes on random inputs.",
        show_default="as they are",
    ),
]

Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        metavar="N",
        help="Threads that run the model, and that it is compiled for: records and schedules of other numbers are others.",
        show_default="all cores that may be used, or TENSORSMITH_NUM_THREADS; of an executable, those it was compiled with",
    ),
]

AsJson = Annotated[bool, typer.Option("--json", help="For programs: JSON on the standard output, and nothing else there.")]

Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="[NAME=]FILE",
        help="An input as NAME=FILE.npy (just FILE.npy if it is the only one), or several as FILE.npz. Without any, floats are "
        "random and integers are ones.",
    ),
]
