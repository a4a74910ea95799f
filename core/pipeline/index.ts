// Builds and runs pipelines, for programs that host one.
export { CallControl, isCallControl } from '../call/call-control.js'
export {
  beginDispatch,
  countRetry,
  endAt,
  endDispatch,
  refineTarget,
  releaseHolds,
  replaceTrace,
  settle,
  takeReferenceRules,
} from '../call/control-operations.js'
export { compose, type Dispatch, type PlacedStage, type Run } from './compose.js'
export { type CallObserver, callObserver } from './observe.js'
export { buildPipeline, Pipeline } from './pipeline.js'
