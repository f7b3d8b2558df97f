package analysis

// correct applies Holm's correction: the primary costs of the report are one
// family, and the secondary ones are corrected as members of the family of
// all. A comparison with too few pairs for a p still counts as a member, so
// that failed trials cannot make the others look better.
func correct(all []*costEstimate) {
	apply := func(members []*costEstimate, to func(*costEstimate) bool) {
		var p []float64
		var with []*costEstimate
		for _, c := range members {
			if c.P != nil {
				p = append(p, *c.P)
				with = append(with, c)
			}
		}
		for i, corrected := range holm(p, len(members)) {
			if to(with[i]) {
				with[i].PHolm = &corrected
			}
		}
		for _, c := range members {
			if to(c) {
				c.familySize = len(members)
			}
		}
	}
	var primary []*costEstimate
	for _, c := range all {
		if c.Primary {
			primary = append(primary, c)
		}
	}
	apply(all, func(c *costEstimate) bool { return !c.Primary })
	apply(primary, func(*costEstimate) bool { return true })
}
