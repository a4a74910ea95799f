export { type BrokersConfig, brokersSchema } from './config.js'
export { brokersPlugin } from './plugin.js'
