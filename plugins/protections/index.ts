export { protectionsPlugin } from './plugin.js'
