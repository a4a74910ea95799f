// Header fields, event streams and metadata documents of HTTP.
export { type BoundedBody, readBounded } from './bounded-body.js'
export { bearerTokenIn, connectionFields, fieldValue, retryAfterMs } from './header-field.js'
export {
  classifyHost,
  type HostAndPort,
  type HostClass,
  isLoopbackHost,
  parseAuthority,
  redirectInHost,
} from './host.js'
export { publicLookup } from './lookup.js'
export {
  ALL_SERVERS_PATH,
  type DescribeResource,
  metadataPath,
  metadataUrl,
  type ResourceMetadata,
  resourceUrl,
} from './protected-resource.js'
export { eventOf, readEvent, type SseEvent, withData, withIds, withKnownFields } from './sse/event.js'
export { type SseBlock, SseOverflow, SseSplitter } from './sse/splitter.js'
