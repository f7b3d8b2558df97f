#!/usr/bin/env python3
"""Writes vectors.json: inputs and what SciPy makes of them.

    pip install scipy==1.17.1
    python3 generate_vectors.py > vectors.json

The signed-rank and rank-sum p values with ties come from SciPy's exact
permutation distribution, Spearman's from all orders where there are at most
nine values.
"""
import json
import math
import sys

import numpy as np
import scipy
from scipy import stats

rng = np.random.default_rng(20240607)
out = {"scipy": scipy.__version__, "signed_rank": [], "rank_sum": [], "spearman": [], "student": [], "normal": [],
       "median_interval": [], "signed_rank_depth": []}

EXACT = stats.PermutationMethod(n_resamples=np.inf)


def values(kind, n):
    if kind == "continuous":
        return rng.normal(0.3, 1, n)
    if kind == "heavy":
        return rng.standard_t(2, n)
    if kind == "ties":
        return rng.choice([-3, -2, -1, 1, 2, 3, 4], n).astype(float)
    return rng.integers(-2, 4, n).astype(float)  # ties and zeros


for kind in ("continuous", "heavy", "ties", "zeros"):
    for n in (2, 5, 6, 8, 10, 12, 13):
        x = values(kind, n)
        if not np.any(x):
            continue
        r = stats.wilcoxon(x, zero_method="pratt", method=EXACT)
        out["signed_rank"].append({"kind": kind, "values": x.tolist(), "p": float(r.pvalue)})
for n in (20, 30, 50):  # without ties SciPy counts exactly at any of these
    x = values("continuous", n)
    out["signed_rank"].append({"kind": "continuous", "values": x.tolist(), "p": float(stats.wilcoxon(x, method="exact").pvalue)})
x = values("continuous", 300)
out["signed_rank"].append({"kind": "approximate", "values": x.tolist(),
                           "p": float(stats.wilcoxon(x, method="approx", correction=True).pvalue)})

for kind in ("continuous", "ties"):
    for n, m in ((3, 3), (4, 5), (5, 5), (6, 7)):
        a, b = values(kind, n), values(kind, m) + (1.5 if kind == "continuous" else 1)
        # Two-sided by the distance of the rank sum from its mean.
        pooled = stats.rankdata(np.concatenate([a, b]))
        mean = pooled.sum() * n / (n + m)

        def distance(x, y, axis=0):
            return abs(x.sum() - mean)

        r = stats.permutation_test((pooled[:n], pooled[n:]), distance, permutation_type="independent",
                                   vectorized=False, n_resamples=np.inf, alternative="greater")
        out["rank_sum"].append({"a": a.tolist(), "b": b.tolist(), "p": float(r.pvalue)})

for n in (3, 4, 6, 7):
    for tied in (False, True):
        x = np.arange(n, dtype=float)
        y = rng.integers(0, 3, n).astype(float) if tied else rng.normal(size=n)
        if len(set(y)) < 2:
            continue
        rho = stats.spearmanr(x, y).statistic
        r = stats.permutation_test((y,), lambda v: abs(stats.spearmanr(x, v).statistic), permutation_type="pairings",
                                   vectorized=False, n_resamples=np.inf, alternative="greater")
        out["spearman"].append({"x": x.tolist(), "y": y.tolist(), "rho": float(rho), "p": float(r.pvalue)})
for n in (10, 11, 25, 30):
    x, y = np.arange(n, dtype=float), rng.normal(size=n) + np.arange(n) * 0.05
    r = stats.spearmanr(x, y)
    out["spearman"].append({"x": x.tolist(), "y": y.tolist(), "rho": float(r.statistic), "p": float(r.pvalue)})

for degrees in (1, 2, 3, 4, 7, 8, 28, 29, 300):
    for t in (0.0, 0.3, 1.0, 2.228, 5.0):
        out["student"].append({"t": t, "degrees": degrees, "p": float(2 * stats.t.sf(t, degrees))})
for p in (0.0005, 0.025, 0.05, 0.2, 0.5, 0.8, 0.975, 0.9995):
    out["normal"].append({"p": p, "z": float(stats.norm.ppf(p))})

# The k-th values from either end that bound the median, and their coverage.
for n in (5, 6, 7, 9, 10, 15, 20, 30, 70, 100, 1500):
    for confidence in (0.90, 0.95, 0.99):
        k = 0
        while 2 * stats.binom.cdf(k, n, 0.5) <= (1 - confidence) * (1 + 1e-9):
            k += 1
        coverage = 1 - 2 * stats.binom.cdf(k - 1, n, 0.5) if k else None
        out["median_interval"].append({"n": n, "confidence": confidence, "k": k, "coverage": coverage})

# The same for Walsh averages, from SciPy's signed-rank distribution.
for n in (4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 25, 30, 50):
    for confidence in (0.90, 0.95, 0.99):
        def cdf(w):
            # p of the one-sided exact test of a sample with rank sum w
            signs, rest = [], w
            for r in range(n, 0, -1):
                take = rest >= r
                rest -= r if take else 0
                signs.append(r if take else -r)
            assert rest == 0
            return stats.wilcoxon(np.array(signs, dtype=float), alternative="less", method="exact").pvalue
        k = 0
        while 2 * cdf(k) <= (1 - confidence) * (1 + 1e-9):
            k += 1
        out["signed_rank_depth"].append({"n": n, "confidence": confidence, "k": k,
                                         "coverage": float(1 - 2 * cdf(k - 1)) if k else None})

json.dump(out, sys.stdout, indent=None, separators=(",", ":"))
print()
