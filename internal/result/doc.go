// Package result is the documents that hopbench writes for other programs and
// reads again: a run (Result), runs compared (Comparison), several experiments
// (Index) and published figures (PublishedData), each with its format's version.
// They carry numbers and codes, no sentences: package words makes those when
// somebody reads. docs/data-format.md documents every field.
package result
