export { type EnforcementConfig, enforcementSchema } from './config.js'
export { enforcementPlugin } from './plugin.js'
export { MemoryEscalationStore } from './store/memory/store.js'
