package experiment

// pairs refuses what joins one source with one destination in an experiment of
// several pairs.
func (l *loader) pairs(e *Experiment) {
	if e.Pairs <= 1 {
		return
	}
	refused := make(map[any]bool) // fields of several paths once
	for i := range l.file.Paths {
		f := &l.file.Paths[i]
		for _, end := range []string{e.Source, e.Destination} {
			if field := l.softwareSwitch(f, end); field != nil && !refused[field] {
				refused[field] = true
				l.wrong(field, "write accelerated: true, or leave out the pairs", "a software switch stands between one host and its network, and there are %d pairs of hosts", e.Pairs)
			}
		}
		for j := range f.Hops {
			hop := &f.Hops[j]
			switch {
			case hop.Type == string(LoadBalancer):
				l.wrong(&hop.Type, "leave out the hop or the pairs", "back ends stand for one destination, and there are %d pairs", e.Pairs)
			case Translation(hop.Translate) == TranslateDestination, Translation(hop.Translate) == TranslateBoth:
				l.wrong(&hop.Translate, "translate the source, or leave out the hop or the pairs", "a nat translates to one destination, and there are %d pairs", e.Pairs)
			}
		}
	}
}
