// The project whose controllers this one stands in for: to switch from and back to, to
// be measured beside, and to be judged by its tests. It is built in its own folder of
// the module cache, with its own requirements.
module warmpool/tests/e2e/tools/upstream

go 1.26.0

require sigs.k8s.io/agent-sandbox v1.0.3
