export { type AuditConfig, auditSchema } from './config.js'
export { auditPlugin } from './plugin.js'
