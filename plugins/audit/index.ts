export { auditSchema } from './config.js'
export { auditPlugin } from './plugin.js'
