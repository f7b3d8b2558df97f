package runs

// ResultOf is for tests that run whole command lines, and so are in another package.
var ResultOf = resultOf
