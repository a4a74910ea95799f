export { type RuntimeConfig, runtimeSchema } from './config.js'
export { runtimePlugin } from './plugin.js'
