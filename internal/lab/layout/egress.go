package layout

// sharesEgress says whether an endpoint's interfaces have one meter. With a
// single path there is but one interface, and its own meter does.
func (l *layout) sharesEgress(i int) bool {
	endpoint := l.e.Endpoints[i]
	return endpoint.NICs > 1 && endpoint.EgressBitsPerSecond > 0 && len(l.e.Paths) > 1
}
