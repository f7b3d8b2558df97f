package bus

// Hurry has an agent, or a coordinator, wait a hundredth of the time before it tries again.
func (o *AgentOptions) Hurry()       { o.hurry = true }
func (o *CoordinatorOptions) Hurry() { o.hurry = true }
