export { type Ap2Config, ap2Schema } from './config.js'
export { ap2Plugin } from './plugin.js'
