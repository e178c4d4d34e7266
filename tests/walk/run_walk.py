import sys, time, re, tempfile, json
sys.path.insert(0, __file__.rpartition("/")[0])
from pathlib import Path
import torch; torch.set_num_threads(1)
import warnings; warnings.simplefilter("ignore")
from walk import Walk, cases
from walk_hints import exception_for
from walk_corpus import write_corpus
pattern, where = sys.argv[1], sys.argv[2] if len(sys.argv)>2 else ".*"
limit = float(sys.argv[3]) if len(sys.argv)>3 else 1e9
with tempfile.TemporaryDirectory() as tmp:
    corpus = Path(tmp)/"corpus"; corpus.mkdir(); write_corpus(corpus)
    w = Walk(corpus); t=time.time(); n={}
    for leaf, sit in cases(w):
        if not re.fullmatch(pattern, leaf.name) or not re.search(where, sit.name): continue
        if exception_for(leaf): continue
        if time.time()-t>limit: print("LIMIT"); break
        try: s = w.step(leaf, sit)
        except Exception as e:
            import traceback; traceback.print_exc(); print("CRASH", leaf.name, sit.name); continue
        n[s.result]=n.get(s.result,0)+1
        if s.result != "acts" or s.idle: print(s.result, sit.name, leaf.name, "|", s.detail[:230].replace("\n"," "), ("| IDLE "+",".join(s.idle[:3])) if s.idle else "", flush=True)
    print(n, time.time()-t)
