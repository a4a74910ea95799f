export { entitlementsPlugin } from './plugin.js'
