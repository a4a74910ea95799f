// What someone who writes a plugin tests it with. Bound to no test framework.
export { MemoryDedupeStore } from '@svc/plugin-dedupe'
export { type FakeCall, fakeCall, fakeCallControl } from './call.js'
export { FakeClock } from './clock.js'
export { type ConformanceOptions, type ConformanceTest, conformance } from './conformance.js'
export { type FakeContext, fakeContext } from './context.js'
export { FakeIds } from './ids.js'
export { createStage, createStageIn } from './stage.js'
