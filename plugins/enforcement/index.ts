export { enforcementPlugin } from './plugin.js'
export { type EscalationEntry, EscalationStore } from './store/entries.js'
