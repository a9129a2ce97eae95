#!/bin/sh
# `make demo`: a whole experiment without any data, then sentences that no model has heard before.
# Usage: recipes/demo.sh [ARBORVOX [FOLDER]]
set -eu
arborvox=${1:-arborvox}
out=${2:-demo}
# On a busy 2-core machine two threads were many times slower than one for models this small.
export OMP_NUM_THREADS=1

"$arborvox" run "$(dirname "$0")/demo.yaml" --out "$out"

# The voices of the experiment say something new; like all they ever said, it is a list of names.
new="$out/new"
mkdir -p "$new/text"
echo "Martes, Marruecos y el peso chileno." > "$new/text/es.txt"
echo "Giovedì, Portogallo e lira turca." > "$new/text/it.txt"
echo "Miercuri, Norvegia și leu românesc." > "$new/text/ro.txt"
"$arborvox" --quiet prepare synthetic "$new/corpus" --out "$new" --text "$new/text" \
  --languages es,it,ro --sentences 1 --speakers 1 --split utterance
for language in es it ro; do
  echo
  echo "said:  $(cat "$new/text/$language.txt")"
  echo "heard: $("$arborvox" --quiet transcribe "$out/runs/h-softmax/seed-0/train" \
    "$new/corpus/$language/clips/"*.flac)"
done
echo
echo "The report: $out/report/report.html"
echo "Serve these models, with these sentences to play on the page:"
echo "  $arborvox serve $out/runs/h-softmax/seed-0/train $out/runs/softmax/seed-0/train \\"
for language in es it ro; do
  clip=$(ls "$new/corpus/$language/clips/"*.flac)
  echo "    --example $clip$([ "$language" = ro ] || echo " \\")"
done
