export { type PrivacyConfig, privacySchema } from './config.js'
export { privacyPlugin } from './plugin.js'
