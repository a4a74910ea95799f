export { rulesPlugin } from './plugin.js'
