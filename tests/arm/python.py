"""An arm64 Python that an emulator runs: Debian's packages and the registry's wheels, unpacked into a folder of the user's cache.

    python -m tests.arm.python        sets it up, if it is not there yet, and prints what starts it

It takes a minute or some, once. The system's own packages stay as they are: apt and pip only fetch, for another machine.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

EMULATOR = "qemu-aarch64-static"
SYSTEM = ("python3", "libgomp1", "libstdc++6")
WHEELS = (
    "numpy>=2.0", "llvmlite>=0.50", "lightgbm>=4.3", "rich>=13.0", "typer>=0.12", "pytest>=8.0", "hypothesis>=6.100", "onnx>=1.16",
)  # fmt: skip
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64")
REPOSITORY = Path(__file__).parents[2]


def folder() -> Path:
    """Another one for other packages, or for other words in this file."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "tensorsmith" / f"arm64-{hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]}"


@functools.cache
def python() -> Path:
    """What starts it, as `python` does; set up now, if need be. Raises `RuntimeError` with what went wrong."""
    made = folder()
    if not (made / "python").exists():
        begun = made.with_name(f"{made.name}.{os.getpid()}")
        shutil.rmtree(begun, ignore_errors=True)
        begun.mkdir(parents=True)
        _system(begun)
        _wheels(begun)
        (begun / "site" / "sitecustomize.py").write_text("import os, sys\nsys.executable = os.environ['EMULATED_PYTHON']\n")
        if made.exists():
            shutil.rmtree(made)
        begun.rename(made)
        _starter(made)
    return made / "python"


def run(words: Sequence[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """One command of it, in the repository."""
    known = {**os.environ, "PYTHONPATH": f"{REPOSITORY / 'src'}:{REPOSITORY}", "PYTHONDONTWRITEBYTECODE": "1", **environment}
    return subprocess.run([str(python()), *words], cwd=REPOSITORY, env=known, capture_output=True, text=True, check=False)


def _system(where: Path) -> None:
    """Debian's packages for arm64, by an apt that knows of no others, unpacked into `root`."""
    apt = where / "apt"
    for part in ("state/lists/partial", "cache/archives/partial"):
        (apt / part).mkdir(parents=True)
    (apt / "status").touch()
    (apt / "apt.conf").write_text(
        f'Dir::State "{apt}/state"; Dir::State::status "{apt}/status"; Dir::Cache "{apt}/cache";\n'
        'APT::Architecture "arm64"; APT::Architectures {"arm64";}; APT::Install-Recommends "false"; APT::Sandbox::User "";\n'
    )
    told = {**os.environ, "APT_CONFIG": str(apt / "apt.conf")}
    _do(["apt-get", "update", "-q"], told)
    _do(["apt-get", "install", "-y", "-q", "--download-only", *SYSTEM], told)
    for package in sorted((apt / "cache" / "archives").glob("*.deb")):
        _do(["dpkg", "-x", str(package), str(where / "root")])
    shutil.rmtree(apt)


def _version(where: Path) -> str:
    """Of the Python there, "3.11"."""
    return next(p.name for p in sorted((where / "root" / "usr" / "bin").glob("python3.*"))).removeprefix("python")


def _wheels(where: Path) -> None:
    for_it = [word for platform in PLATFORMS for word in ("--platform", platform)]
    options = ["-q", "-d", str(where / "wheels"), "--only-binary=:all:", "--python-version", _version(where), *for_it]
    _do([sys.executable, "-m", "pip", "download", "--disable-pip-version-check", *options, *WHEELS])
    for wheel in sorted((where / "wheels").glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(where / "site")
    shutil.rmtree(where / "wheels")


def _starter(where: Path) -> None:
    """Last, and at once: a folder with one is complete."""
    starter, begun = where / "python", where / "python.begun"
    begun.write_text(
        "#!/bin/sh\n"
        f'export EMULATED_PYTHON="{starter}" PYTHONPATH="{where}/site${{PYTHONPATH:+:$PYTHONPATH}}"\n'
        f'exec {EMULATOR} -cpu max -L "{where}/root" "{where}/root/usr/bin/python{_version(where)}" "$@"\n'
    )
    begun.chmod(0o755)
    begun.rename(starter)


def _do(command: Sequence[str], environment: dict[str, str] | None = None) -> None:
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    except FileNotFoundError as problem:
        raise RuntimeError(f"{command[0]} is not there: this needs Debian, or a system like it") from problem
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:3])} ended with {done.returncode}: {done.stdout[-1000:]}{done.stderr[-2000:]}")


if __name__ == "__main__":
    print(python())
