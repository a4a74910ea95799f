// `svc-sdk/core/http`: event streams.
export {
  eventOf,
  readEvent,
  type SseEvent,
  SseOverflow,
  SseSplitter,
} from '@svc/core/http'
