// The tools for tests of plugins, for any test framework.
export { MemoryKeyValueStore } from '@svc/core/store'
export { type FakeCall, fakeCall } from './call.js'
export { type ConformanceOptions, type ConformanceTest, conformance } from './conformance.js'
export { createStage, FakeClock, type FakeContext, FakeIds, fakeContext } from './context.js'
