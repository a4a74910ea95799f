export { didMethods } from './keys/did-method.js'
export { ap2Plugin } from './plugin.js'
export { usedMandateStore } from './use-hold.js'
