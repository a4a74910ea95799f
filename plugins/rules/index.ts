export { type ExplainedRead, type ExplainedRule, explainedRules } from './explained-rules.js'
export { rulesPlugin } from './plugin.js'
