#!/bin/bash
# Builds mpsx and runs its tests on this machine's NVIDIA GPU, a file at a time, and writes a report.
#
#   tools/gpu_check.sh [seconds] [folder]
#
# Ends after so many seconds (570), and goes on where it ended when it is called again with the same folder
# (build/gpu_check): a part that has a line in FOLDER/report.tsv is not run again. LONG=1 adds every kernel, under
# compute-sanitizer too. OPINFO=1 begins with the op-support matrix, on OPINFO_JOBS processes. ONLY is an expression that
# names of parts must match. ISAS=cuda leaves out the host driver's kernels, which a few tests need beside the GPU's.
# What the linker needs goes into CMAKE_ARGS.
set -u
cd "$(dirname "$0")/.."
export DEADLINE=$(($(date +%s) + ${1:-570})) OUT=$(realpath -m "${2:-build/gpu_check}")
mkdir -p "$OUT"
python=$(command -v python3)
if [ ! -e "$OUT/built" ]; then
  isas=${ISAS:-$("$python" tools/msl.py compiler | sed -n 4p);cuda}
  cmake -S . -B build/dev -G Ninja "-DMPSX_ISAS=$isas" \
    -DPython_EXECUTABLE="$python" ${CMAKE_ARGS:-} > "$OUT/build.log" 2>&1 &&
    cmake --build build/dev -j "$(nproc)" >> "$OUT/build.log" 2>&1 || { tail -20 "$OUT/build.log"; exit 1; }
  printf %s "$isas" > build/dev/isas.txt
  (cd tools && "$python" -c "import dev; dev.lay_out_site()") && touch "$OUT/built"
fi
export PYTHONPATH="$PWD/build/dev/site${PYTHONPATH:+:$PYTHONPATH}" MPSX_DRIVER=cuda
"$python" -m mpsx info > "$OUT/info.txt" && sed -n '/^Driver/,/^$/p' "$OUT/info.txt"

# Machine code of all kernels, for the cache folder: later processes load it.
if [ ! -e "$OUT/compiled" ]; then
  start=$(date +%s) jobs=$(nproc)
  for ((i = 0; i < jobs; ++i)); do
    "$python" -c "import mpsx; r = mpsx._runtime; [r.load_kernel(k) for k in r.kernel_names()[$i::$jobs]]" || exit 1 &
  done
  wait
  echo "all kernels compiled in $(($(date +%s) - start)) s" | tee "$OUT/compiled"
fi

matrix=
if [ -n "${OPINFO:-}" ]; then
  timeout $((DEADLINE - $(date +%s))) "$python" tools/opmatrix.py --drivers cuda --output "$OUT/opmatrix" --keep \
    --jobs "${OPINFO_JOBS:-$(nproc)}" > "$OUT/opmatrix.log" 2>&1 &
  matrix=$!
fi

run_part() {  # a part's name, and what pytest is given
  grep -q "^$1	" "$OUT/report.tsv" 2> /dev/null && return
  local left=$((DEADLINE - $(date +%s))) log="$OUT/${1//\//-}.log" start=$(date +%s) status
  [ "$left" -gt 10 ] || return
  timeout "$left" python3 -m pytest -q -p no:cacheprovider -p no:xdist -rfE --tb=short ${@:2} > "$log" 2>&1
  status=$?
  [ $status -eq 124 ] && return  # once more, with more time
  [ $status -eq 5 ] && status=0  # nothing but sweeps
  printf '%s\t%s\t%s\t%s\n' "$1" $status $(($(date +%s) - start)) "$(tail -1 "$log")" >> "$OUT/report.tsv"
}
export -f run_part

{
  find tests/{cli,device,inductor,models,ops,shader} -name 'test_*.py' | grep -vE '/test_(cpu_threads|vendor_)' |
    sed 's/.*/\0 \0/'
  if [ -n "${LONG:-}" ]; then
    kernels=tests/cuda/test_cuda_kernels.py
    echo planted_faults -m sweep tests/cuda/test_planted_faults.py
    for tool in memcheck racecheck synccheck initcheck; do
      for part in {0..7}; do echo "${tool}_$part -m sweep -rP $kernels::test_sanitizer[$tool-$part]"; done
    done
    for threads in "" 48 1000 256; do
      for part in {0..7}; do echo "values_${threads:-own}_$part -m sweep -rP $kernels::test_values[$threads-$part]"; done
    done
  fi
} | sed 's#^tests/\([^ ]*\)#\1#; s#^\([^ ]*\)\.py#\1#' | grep -E "^[^ ]*(${ONLY:-})" |
  xargs -P "${JOBS:-$(($(nproc) - 1))}" -I{} bash -c 'run_part {}'
[ -z "$matrix" ] || wait "$matrix"

sort -o "$OUT/report.tsv" "$OUT/report.tsv"
awk -F'\t' '$2 > 0 {print}' "$OUT/report.tsv"
grep -hE "^(FAILED|ERROR) " "$OUT"/*.log | sort | cut -c1-160
echo "$(wc -l < "$OUT/report.tsv") parts done, $(awk -F'\t' '$2 > 0' "$OUT/report.tsv" | wc -l) with failures; $OUT/report.tsv"
