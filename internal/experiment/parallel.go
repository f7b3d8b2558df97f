package experiment

// Parallel is how many devices the hop is at most, side by side, each of which
// does to frames what the hop's Impairment says: the instances of a firewall,
// after it was scaled out, or the back ends of a load balancer, each with a
// link of its own. It is 1 for any other hop.
func (h Hop) Parallel() int {
	switch {
	case h.Type == LoadBalancer:
		return max(h.Backends, 1)
	case h.ScaleOut != nil:
		return max(h.Instances, h.ScaleOut.Instances, 1)
	}
	return max(h.Instances, 1)
}
