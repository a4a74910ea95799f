// `svc-sdk/core`: what a custom stage or plugin needs.
export * from '@svc/core'
export { type UpstreamAnswer, UpstreamFault, type UpstreamRequest } from './upstream/answer.js'
export { type UpstreamDispatcher, upstreamDispatcher } from './upstream/dispatcher.js'
