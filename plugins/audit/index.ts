export { auditSchema } from './config.js'
export { logDirectory } from './open-log.js'
export { auditPlugin } from './plugin.js'
export { recordListener } from './record.js'
