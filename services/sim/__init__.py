"""Commands around the simulator: the fuzzer and the replay of journals."""
