export { privacyPlugin } from './plugin.js'
