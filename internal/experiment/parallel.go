package experiment

// Parallel is the largest number of parallel links of the hop. Each has the
// hop's whole Impairment. A firewall has one link for each instance, after it was
// scaled out; a load balancer has one for each back end; any other hop has one.
func (h Hop) Parallel() int {
	switch {
	case h.Type == LoadBalancer:
		return max(h.Backends, 1)
	case h.ScaleOut != nil:
		return max(h.Instances, h.ScaleOut.Instances, 1)
	}
	return max(h.Instances, 1)
}
