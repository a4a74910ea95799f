export { type EnforcementConfig, enforcementSchema } from './config.js'
export { MemoryEscalationStore } from './escalation/memory/store.js'
export { enforcementPlugin } from './plugin.js'
