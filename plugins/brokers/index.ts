export { type CredentialSource, credentialSource } from './keys.js'
export { brokersPlugin } from './plugin.js'
