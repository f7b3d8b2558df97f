package statistics

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// vectors are recorded from SciPy by testdata/generate_vectors.py.
type vectors struct {
	SignedRank []struct {
		Kind   string
		Values []float64
		P      float64
	} `json:"signed_rank"`
	RankSum []struct {
		A, B []float64
		P    float64
	} `json:"rank_sum"`
	Spearman []struct {
		X, Y   []float64
		Rho, P float64
	}
	Student []struct {
		T       float64
		Degrees int
		P       float64
	}
	Normal          []struct{ P, Z float64 }
	MedianInterval  []depthVector `json:"median_interval"`
	SignedRankDepth []depthVector `json:"signed_rank_depth"`
}

type depthVector struct {
	N          int
	Confidence float64
	K          int
	Coverage   float64
}

func loadVectors(t *testing.T) vectors {
	t.Helper()
	data, err := os.ReadFile("testdata/vectors.json")
	testutil.OK(t, err)
	var v vectors
	testutil.OK(t, json.Unmarshal(data, &v))
	return v
}

func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance }

func TestAgainstSciPy(t *testing.T) {
	v := loadVectors(t)
	if len(v.SignedRank) == 0 || len(v.RankSum) == 0 || len(v.Spearman) == 0 || len(v.Student) == 0 ||
		len(v.Normal) == 0 || len(v.MedianInterval) == 0 || len(v.SignedRankDepth) == 0 {
		t.Fatal("a table of vectors.json is empty")
	}
	for _, c := range v.SignedRank {
		if got := SignedRankP(c.Values); !near(got/c.P, 1, 1e-10) {
			t.Errorf("signed rank, %s %v: p = %v, SciPy %v", c.Kind, c.Values, got, c.P)
		}
	}
	for _, c := range v.RankSum {
		if got := RankSumP(c.A, c.B); !near(got, c.P, 1e-12) {
			t.Errorf("rank sum %v %v: p = %v, SciPy %v", c.A, c.B, got, c.P)
		}
	}
	for _, c := range v.Spearman {
		rho, p, ok := Spearman(c.X, c.Y)
		if !ok || !near(rho, c.Rho, 1e-12) || !near(p, c.P, 1e-12) {
			t.Errorf("spearman %v: %v %v %v, SciPy %v %v", c.Y, rho, p, ok, c.Rho, c.P)
		}
	}
	for _, c := range v.Student {
		if got := StudentTwoSided(c.T, c.Degrees); !near(got, c.P, 1e-12) {
			t.Errorf("t = %v with %d degrees: p = %v, SciPy %v", c.T, c.Degrees, got, c.P)
		}
	}
	for _, c := range v.Normal {
		if got := NormalQuantile(c.P); !near(got, c.Z, 1e-12) {
			t.Errorf("normal quantile %v: %v, SciPy %v", c.P, got, c.Z)
		}
	}
	for _, c := range v.MedianInterval {
		s := make([]float64, c.N)
		for i := range s {
			s[i] = float64(i + 1) // the value is its place
		}
		got, ok := MedianInterval(s, c.Confidence)
		if ok != (c.K > 0) {
			t.Errorf("median interval n = %d at %v: ok = %v, SciPy k = %d", c.N, c.Confidence, ok, c.K)
			continue
		}
		if ok && (got.Low != float64(c.K) || got.High != float64(c.N+1-c.K) || !near(got.Coverage, c.Coverage, 1e-9)) {
			t.Errorf("median interval n = %d at %v: %+v, SciPy k = %d, coverage %v", c.N, c.Confidence, got, c.K, c.Coverage)
		}
	}
	for _, c := range v.SignedRankDepth {
		k, coverage := signedRankDepth(c.N, c.Confidence)
		if k != c.K || k > 0 && !near(coverage, c.Coverage, 1e-12) {
			t.Errorf("Walsh depth n = %d at %v: %d %v, SciPy %d %v", c.N, c.Confidence, k, coverage, c.K, c.Coverage)
		}
	}
}

// naiveRank is the mean rank among all of those that are equal to v.
func naiveRank(v float64, all []float64) float64 {
	below, equal := 0, 0
	for _, m := range all {
		if m < v {
			below++
		}
		if m == v {
			equal++
		}
	}
	return float64(below) + float64(equal+1)/2
}

// The naive distribution tries all 2^n signs.
func naiveSignedRankP(values []float64) float64 {
	magnitudes := make([]float64, len(values))
	for i, v := range values {
		magnitudes[i] = math.Abs(v)
	}
	var ranks []float64
	observed, total := 0.0, 0.0
	for i, v := range values {
		if v == 0 {
			continue
		}
		r := naiveRank(magnitudes[i], magnitudes)
		ranks = append(ranks, r)
		total += r
		if v > 0 {
			observed += r
		}
	}
	if len(ranks) == 0 {
		return 1
	}
	distance := math.Abs(observed - total/2)
	extreme := 0
	for signs := range 1 << len(ranks) {
		w := 0.0
		for i, r := range ranks {
			if signs>>i&1 == 1 {
				w += r
			}
		}
		if math.Abs(w-total/2) >= distance {
			extreme++
		}
	}
	return float64(extreme) / float64(int(1)<<len(ranks))
}

func naiveRankSumP(a, b []float64) float64 {
	all := append(append([]float64{}, a...), b...)
	rank := func(v float64) float64 { return naiveRank(v, all) }
	mean, observed := 0.0, 0.0
	for _, v := range all {
		mean += rank(v) * float64(len(a)) / float64(len(all))
	}
	for _, v := range a {
		observed += rank(v)
	}
	extreme, total := 0, 0
	for mask := range 1 << len(all) {
		count, sum := 0, 0.0
		for i, v := range all {
			if mask>>i&1 == 1 {
				count++
				sum += rank(v)
			}
		}
		if count != len(a) {
			continue
		}
		total++
		if math.Abs(sum-mean) >= math.Abs(observed-mean)-1e-9 {
			extreme++
		}
	}
	return float64(extreme) / float64(total)
}

// Holm's table of the 1979 paper's kind, worked by hand.
func TestHolm(t *testing.T) {
	for _, c := range []struct {
		p    []float64
		size int
		want []float64
	}{
		{[]float64{0.01, 0.04, 0.03, 0.005}, 4, []float64{0.03, 0.06, 0.06, 0.02}},
		{[]float64{0.01, 0.04}, 4, []float64{0.04, 0.12}}, // two members without a p
		{[]float64{0.5, 0.9}, 2, []float64{1, 1}},
		{nil, 3, nil},
	} {
		got := Holm(c.p, c.size)
		if len(got) != len(c.want) {
			t.Fatalf("Holm(%v) = %v", c.p, got)
		}
		for i := range got {
			if !near(got[i], c.want[i], 1e-12) {
				t.Errorf("Holm(%v, %d) = %v, want %v", c.p, c.size, got, c.want)
			}
		}
	}
}
