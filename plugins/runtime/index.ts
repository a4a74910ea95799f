export { runtimePlugin } from './plugin.js'
export { outputRuleSchema } from './redact/rule.js'
export { responseSchema } from './remote/wire.js'
