export { type EnforcementConfig, enforcementSchema } from './config.js'
export { enforcementPlugin } from './plugin.js'
