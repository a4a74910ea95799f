export { type EntitlementsConfig, entitlementsSchema } from './config.js'
export { entitlementsPlugin } from './plugin.js'
