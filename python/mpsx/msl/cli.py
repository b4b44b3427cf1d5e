"""The command line of tools/msl.py."""

import argparse
import re
import sys

from .compiler import print_for_cmake
from .flatten import flatten_all
from .ptx import pack_files
from .source import MslError
from .translate import load, translate, write_depfile, write_if_changed, write_index

MODES = ["wide", "simt", "auto", "cuda"]


def parser():
    top = argparse.ArgumentParser(prog="msl.py", description="Metal Shading Language tools")
    sub = top.add_subparsers(dest="command", required=True)

    def source_options(p):
        p.add_argument("-I", dest="include", action="append", default=[], help="include directory")
        p.add_argument("-D", dest="define", action="append", default=[], help="macro definition")
        p.add_argument("--preprocessor", help="compiler command that preprocesses (default: $CXX or c++)")

    t = sub.add_parser("translate", help="translate a .metal file to C++")
    t.add_argument("input")
    t.add_argument("-o", dest="output", required=True)
    t.add_argument("--mode", choices=MODES, default="wide",
                   help="wide: one thread per threadgroup; simt: every thread runs; auto: simt if threads interact; "
                        "cuda: simt on a GPU")
    t.add_argument("--depfile")
    t.add_argument("--shards", type=int, default=1, help="distribute the kernels over OUT.0.cpp, OUT.1.cpp, …")
    t.add_argument("--root", help="base directory of file names in messages and #line directives")
    t.add_argument("--name", help="unique name of the file in its library (default: its stem)")
    source_options(t)
    f = sub.add_parser("flatten", help="inline the project's headers into .metal files and join them")
    f.add_argument("inputs", nargs="+")
    f.add_argument("-o", dest="output", required=True)
    source_options(f)
    ls = sub.add_parser("list", help="list the kernels of .metal files and their buffers")
    ls.add_argument("inputs", nargs="+")
    ls.add_argument("--count", action="store_true", help="print only the number of kernels in each file")
    source_options(ls)
    x = sub.add_parser("index", help="write the file that exports the table of all kernels")
    x.add_argument("inputs", nargs="+")
    x.add_argument("-o", dest="output", required=True)
    k = sub.add_parser("pack", help="write a library of PTX files, a.cpp.ptx or a.cpp.sm_90a.ptx, next to a.cpp")
    k.add_argument("inputs", nargs="+")
    k.add_argument("-o", dest="output", required=True)
    k.add_argument("--compiler", default="", help="description of the compiler that wrote the PTX")
    c = sub.add_parser("compiler", help="print the kernel compiler, for CMake")
    c.add_argument("--isa", help="print the flags for this ISA instead")
    c.add_argument("--source", help="print the additional flags for this translated file instead")
    c.add_argument("--target", default="", help="the NVIDIA architecture of the file: sm_80 or sm_90a")
    return top


def host_names(path, args):
    _, module, _ = load(path, args.include, args.define, args.preprocessor)
    return [instance.host_name for instance in module.instances]


def list_kernels(args):
    for path in args.inputs:
        _, module, _ = load(path, args.include, args.define, args.preprocessor)
        if args.count:
            print(len(module.instances))
            continue
        for inst in module.instances:
            buffers = [f"{p.index}: {p.text}" for p in inst.kernel.parameters if p.index >= 0]
            print(inst.host_name, *buffers, sep="\n    ")


def main(argv=None):
    args = parser().parse_args(argv)
    try:
        if args.command == "translate":
            outs, files = translate(args.input, args.output, args.include, args.define, args.preprocessor,
                                    args.shards, args.name, args.root, args.mode)
            if args.depfile:
                write_depfile(args.depfile, outs[0], files)
        elif args.command == "flatten":
            write_if_changed(args.output, flatten_all(args.inputs, args.include, lambda path: host_names(path, args)))
        elif args.command == "index":
            write_index(args.output, args.inputs)
        elif args.command == "pack":
            sources = [re.sub(r"(\.cpp)\.\w+\.ptx$|\.ptx$", r"\1", path) for path in args.inputs]
            pack_files(args.output, sources, args.inputs, args.compiler)
        elif args.command == "compiler":
            print_for_cmake(args.isa, args.source, args.target)
        else:
            list_kernels(args)
    except MslError as e:
        print(e, file=sys.stderr)
        return 1
    except OSError as e:
        print(f"{e.filename}: {e.strerror}", file=sys.stderr)
        return 1
    return 0
