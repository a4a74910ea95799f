// `svc-sdk/core/http`: event streams, header fields and addresses.
export {
  classifyHost,
  eventOf,
  fieldValue,
  publicLookup,
  readEvent,
  type SseEvent,
  SseOverflow,
  SseSplitter,
} from '@svc/core/http'
