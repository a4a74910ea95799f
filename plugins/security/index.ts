export { type SecurityConfig, securitySchema } from './config.js'
export { securityPlugin } from './plugin.js'
export { type Timer, timer } from './timer.js'
