// `svc-sdk/core/pipeline`: building and running a pipeline.
export {
  buildPipeline,
  CallControl,
  type Dispatch,
  Pipeline,
} from '@svc/core/pipeline'
