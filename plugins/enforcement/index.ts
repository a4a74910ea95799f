export { enforcementPlugin } from './plugin.js'
export { MemoryEscalationStore } from './store/memory/store.js'
