export { decidingEntries } from './entries.js'
export { entitlementsPlugin } from './plugin.js'
