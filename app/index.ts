// What users of `svc-sdk` import.
export { createPipeline, type EmbeddedPipeline, type ToolCall } from './embed.js'
export * from './gateway/index.js'
